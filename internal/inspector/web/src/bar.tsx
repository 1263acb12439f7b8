import { useEffect, useState } from "preact/hooks";

import { follow } from "./link.js";
import { remember, remembered } from "./remember.js";

const themes = ["system", "light", "dark"] as const;
type Theme = (typeof themes)[number];

/** The bar at the top of each screen. A shared session and a file have no links to other screens. */
export function Bar({ alone }: { alone: boolean }) {
  const [theme, setTheme] = useState<Theme>(() => themes.find((name) => name === remembered(() => localStorage, "theme")) ?? "system");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    remember(() => localStorage, "theme", theme);
  }, [theme]);
  return (
    <header class="bar">
      <strong>Tailrace</strong>
      {alone ? (
        <span class="rest" />
      ) : (
        <nav aria-label="Screens">
          <a href="/" onClick={follow}>Start</a>
          <a href="/inspect" onClick={follow}>Sessions</a>
        </nav>
      )}
      <label>
        <span class="hidden">Theme</span>
        <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
          {themes.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
    </header>
  );
}
