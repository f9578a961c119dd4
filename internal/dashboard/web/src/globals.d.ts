declare module "*.css";

// The parts of Node.js that the tests use.
declare module "node:test" {
  export function test(name: string, f: () => void | Promise<void>): void;
  export const mock: { timers: { enable(o: { apis: string[] }): void; tick(ms: number): void; reset(): void } };
}
declare function setImmediate(f: () => void): void;
declare module "node:assert/strict" {
  export function equal(got: unknown, want: unknown, message?: string): void;
  export function deepEqual(got: unknown, want: unknown, message?: string): void;
  export function ok(got: unknown, message?: string): void;
}
