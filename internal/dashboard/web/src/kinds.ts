// The kinds of thread time, in stacking order.
export const kinds: [string, string, string][] = [
  ["gpu_wait", "GPU wait", "waiting for the GPU to finish its work"],
  ["call_cpu", "CPU in calls", "on a CPU, inside CUDA calls"],
  ["gap_cpu", "CPU between calls", "on a CPU, in the program's own code"],
  ["runnable", "Runnable, waiting", "ready to run while another thread had the CPU"],
  ["throttled", "Throttled", "stopped by the CPU quota of its cgroup"],
  ["blocked", "Blocked", "waiting: disk, lock, network, another process"],
];

export const kindName = (kind: string): string => kinds.find(([k]) => k === kind)?.[1] ?? kind;

// colour returns the colour of a kind in the current theme.
export function colour(kind: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--k-${kind}`).trim() || "#888";
}

export function themed(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
