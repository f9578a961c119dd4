// What a thread's time can be, in the order in which it is stacked.
export const kinds: [string, string, string][] = [
  ["gpu_wait", "GPU wait", "waiting for the GPU, which works"],
  ["call_cpu", "CPU in calls", "computing, inside CUDA calls"],
  ["gap_cpu", "CPU between calls", "computing, in the program's own code"],
  ["runnable", "Runnable, waiting", "ready to run while another had the CPU"],
  ["throttled", "Throttled", "stopped by the CPU quota of its cgroup"],
  ["blocked", "Blocked", "waiting: disk, lock, network, another process"],
];

export const kindName = (kind: string): string => kinds.find(([k]) => k === kind)?.[1] ?? kind;

// colour is that of a kind in the theme that is on.
export function colour(kind: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--k-${kind}`).trim() || "#888";
}

export function themed(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
