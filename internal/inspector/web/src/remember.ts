/** remember stores a text of the user in the browser. Pages that are opened from a file, and browsers that are set up so, have no storage. */
export function remember(storage: () => Storage, key: string, text: string): void {
  try {
    storage().setItem(key, text);
  } catch {
    // the page works without it
  }
}

/** remembered returns a text that was stored, "" without one. */
export function remembered(storage: () => Storage, key: string): string {
  try {
    return storage().getItem(key) ?? "";
  } catch {
    return "";
  }
}
