/** open shows an address of the page without loading it. */
export function open(href: string, replace = false): void {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** follow is the handler of links within the page: a click with a modifier is the browser's. */
export function follow(event: MouseEvent): void {
  const anchor = event.currentTarget as HTMLAnchorElement;
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  open(anchor.href);
}

/** sessionPath is the address of a session. */
export function sessionPath(id: string): string {
  return `/inspect/s/${encodeURIComponent(id)}`;
}
