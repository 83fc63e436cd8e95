// Light or dark: as the system, unless the reader has switched.

const KEY = "kubectl-sky-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function isDark(): boolean {
  const choice = localStorage.getItem(KEY);
  return choice ? choice === "dark" : system.matches;
}

// A choice that is the system's is none: the pages follow the system again.
export function setDark(dark: boolean): void {
  if (dark === system.matches) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, dark ? "dark" : "light");
  apply();
}

export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function apply(): void {
  document.documentElement.className = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

system.addEventListener("change", apply);
window.addEventListener("storage", apply); // another tab has switched
apply();
