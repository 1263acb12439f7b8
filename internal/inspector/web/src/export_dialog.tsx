import { useState } from "preact/hooks";

import { explain, getText } from "./api.js";
import { Dialog } from "./dialog.js";
import type { Edge } from "./edge.js";
import { canHash, fileOf, linesOf, save } from "./export.js";
import { count } from "./format.js";
import type { View } from "./live.js";
import { nameOfView } from "./view_menu.js";

/** The session as a file. */
export function ExportDialog({ live, edge, at, onClose }: { live: View; edge: Edge | undefined; at: number; onClose: () => void }) {
  const [failure, setFailure] = useState("");
  const { id, records, forgotten } = live;
  const hashes = canHash();
  const saveAs = (name: string, file: () => Promise<Blob> | Blob) => {
    Promise.resolve().then(file).then((blob) => (save(name, blob), onClose()), (error: unknown) => setFailure(explain(error)));
  };
  const page = async () => {
    const [script, style] = await Promise.all([getText("/inspect/main.js"), getText("/inspect/style.css")]);
    return fileOf({ session: id, view: live.view || edge?.view || "", at, saved: Date.now(), forgotten, records }, script, style);
  };
  return (
    <Dialog title="Export" onClose={onClose}>
      <p>{count(records.length, "record")}{forgotten > 0 && `, those after #${forgotten}`}, as the view "{nameOfView(edge, live.view)}" shows them. Each reader of the file can read all of them.</p>
      <ul class="choices">
        <li>
          <button type="button" class="main" disabled={!hashes} onClick={() => saveAs(`${id}.html`, page)}>One HTML file</button>
          <span>Conversation, timeline, records and delivery, at this position. It opens without a server and loads nothing. The state of agents has its changes only.</span>
          {!hashes && <span class="failure">This address has no TLS, so the browser computes no hashes, and a file without the hashes of its script is not made. Open the page over https, or from localhost.</span>}
        </li>
        <li>
          <button type="button" onClick={() => saveAs(`${id}.jsonl`, () => linesOf(records))}>JSON lines</button>
          <span>Each record with its bytes, for programs.</span>
        </li>
      </ul>
      {failure !== "" && <p class="failure" role="alert">{failure}</p>}
    </Dialog>
  );
}
