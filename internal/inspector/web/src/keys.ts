import { useEffect } from "preact/hooks";

/** useKeys calls a function for a key that is pressed outside of fields, without a modifier. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select")) return;
      const act = Object.hasOwn(keys, event.key) ? keys[event.key] : undefined;
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
