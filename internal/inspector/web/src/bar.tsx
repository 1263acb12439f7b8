import { useEffect, useState } from "preact/hooks";

import { follow } from "./link.js";

const themes = ["system", "light", "dark"] as const;
type Theme = (typeof themes)[number];

/** The bar at the top of each screen. */
export function Bar() {
  const [theme, setTheme] = useState<Theme>(() => themes.find((name) => name === localStorage.getItem("theme")) ?? "system");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  return (
    <header class="bar">
      <strong>Tailrace</strong>
      <nav aria-label="Screens">
        <a href="/" onClick={follow}>Start</a>
        <a href="/inspect" onClick={follow}>Sessions</a>
      </nav>
      <label>
        <span class="hidden">Theme</span>
        <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
          {themes.map((name) => (
            <option key={name} value={name}>{name}</option>
          ))}
        </select>
      </label>
    </header>
  );
}
