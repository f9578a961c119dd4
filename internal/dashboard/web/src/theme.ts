// Light or dark theme: the system's, unless the reader chose one.
import { Store } from "./store";

type Theme = "light" | "dark";

const key = "ingero-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function kept(): Theme | null {
  try {
    const t = localStorage.getItem(key);
    return t === "light" || t === "dark" ? t : null;
  } catch {
    return null; // browsers may deny storage to files
  }
}

const current = (): Theme => kept() ?? (system.matches ? "dark" : "light");

export const theme = new Store<Theme>(current());

function show(): void {
  document.documentElement.dataset.theme = theme.get();
}

export function toggle(): void {
  const next = theme.get() === "dark" ? "light" : "dark";
  try {
    if (next === (system.matches ? "dark" : "light")) localStorage.removeItem(key);
    else localStorage.setItem(key, next);
  } catch {
    // no storage: the choice holds until the page is closed
  }
  theme.set(next);
}

show();
theme.watch(show);
system.addEventListener("change", () => theme.set(current()));
