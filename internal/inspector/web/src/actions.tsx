import type { Dispatch, StateUpdater } from "preact/hooks";

import { reasonAgainst, type Edge } from "./edge.js";
import { ExportDialog } from "./export_dialog.js";
import { ForkDialog } from "./fork.js";
import { pointAt, type ForkPoint } from "./fork_request.js";
import { useKeys } from "./keys.js";
import { follow } from "./link.js";
import type { LiveSession } from "./live.js";
import { RemoveDialog } from "./remove.js";
import { ShareDialog } from "./share.js";

/** The dialog that is open, "" for none. */
export type Open = { name: "" | "share" | "export" | "delete" } | { name: "fork"; point: ForkPoint };

interface ActionsProps {
  live: LiveSession;
  /** The position, 0 for the end. */
  at: number;
  edge: Edge | undefined;
  dialog: Open;
  onDialog: Dispatch<StateUpdater<Open>>;
}

/** What a user can do with a session, and the dialog of it. */
export function Actions({ live, at, edge, dialog, onDialog }: ActionsProps) {
  const { state } = live.connection;
  const type = live.outline.agents.find((agent) => agent.session === live.id)?.type ?? "";
  const offline = state === "lost" ? "There is no connection." : "";
  const against = { fork: offline || reasonAgainst(edge, "fork"), share: offline, delete: offline || reasonAgainst(edge, "delete") };
  const close = () => onDialog((now) => (now === dialog ? { name: "" } : now)); // the file of a closed dialog may be ready later: another one may be open
  const openFork = () => onDialog({ name: "fork", point: pointAt(live.records, at) });
  const ready = live.records.length > 0 && state !== "unknown" && state !== "refused";
  useKeys({ f: () => ready && against.fork === "" && openFork(), s: () => against.share === "" && onDialog({ name: "share" }) });
  if (state === "unknown" || state === "refused") return null;
  return (
    <div class="acts" role="group" aria-label="Actions">
      <button type="button" disabled={!ready || against.fork !== ""} title={against.fork} onClick={openFork}>Fork</button>
      <a class="button" href={`/inspect/compare?${new URLSearchParams({ a: live.id, ...(live.view && { view: live.view }) })}`} onClick={follow}>Compare</a>
      <button type="button" disabled={against.share !== ""} title={against.share} onClick={() => onDialog({ name: "share" })}>Share</button>
      <button type="button" disabled={!ready} onClick={() => onDialog({ name: "export" })}>Export</button>
      <button type="button" disabled={against.delete !== ""} title={against.delete} onClick={() => onDialog({ name: "delete" })}>Delete</button>
      {dialog.name === "fork" && <ForkDialog id={live.id} type={type} edge={edge} point={dialog.point} onClose={close} />}
      {/* Before the views are known, the first choice would be the one that hides nothing. */}
      {dialog.name === "share" && edge !== undefined && <ShareDialog id={live.id} view={live.view} edge={edge} onClose={close} onExport={() => onDialog({ name: "export" })} />}
      {dialog.name === "export" && <ExportDialog live={live} edge={edge} at={at} onClose={close} />}
      {dialog.name === "delete" && <RemoveDialog id={live.id} onClose={close} />}
    </div>
  );
}
