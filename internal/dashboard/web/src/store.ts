// A value that components watch. Only set changes it, and set notifies the watchers.
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private watchers = new Set<() => void>();
  constructor(private value: T) {}

  get(): T {
    return this.value;
  }

  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const w of [...this.watchers]) w();
  }

  watch(f: () => void): () => void {
    this.watchers.add(f);
    return () => this.watchers.delete(f);
  }
}

export function useStore<T>(s: Store<T>): T {
  const [, again] = useState(0);
  useEffect(() => {
    again((n) => n + 1); // it may have changed before this effect ran
    return s.watch(() => again((n) => n + 1));
  }, [s]);
  return s.get();
}
