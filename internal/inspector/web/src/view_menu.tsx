import type { Edge } from "./edge.js";

/** The audience whose session is shown. The value "" is the view of the client. */
export function ViewMenu({ edge, view, onView }: { edge: Edge | undefined; view: string; onView: (view: string) => void }) {
  const names = edge?.views.filter((name) => name !== edge.view) ?? [];
  const all = view === "" || view === edge?.view || names.includes(view) ? names : [...names, view]; // a link may name any
  return (
    <label class="view-menu">
      View
      <select value={view === edge?.view ? "" : view} onChange={(event) => onView(event.currentTarget.value)}>
        <option value="">{nameOfView(edge)}</option>
        {all.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

/** nameOfView is the name of the view without a choice. */
export function nameOfView(edge: Edge | undefined, view = ""): string {
  return view || edge?.view || "everything";
}
