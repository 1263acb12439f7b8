import { useMemo, useState } from "preact/hooks";

import { outlineOf } from "../../../../clients/ts/src/outline.js";
import type { Stored } from "./export.js";
import { timeOf } from "./format.js";
import type { Shown } from "./live.js";
import { SessionView, useMarks, type Tab } from "./session.js";

/** The tabs that need no server. */
const tabs = ["conversation", "timeline", "state", "records", "delivery"] as const;

/** A session in a file. The position is in the page: a file has no other addresses. */
export function StoredPage({ stored }: { stored: Stored }) {
  const [tab, setTab] = useState<Tab>("timeline");
  const [selected, setSelected] = useState("");
  const [at, setAt] = useState(stored.at);
  const { session: id, view, records, saved, forgotten } = stored;
  const live = useMemo<Shown>(
    () => ({ id, view, readOnly: true, records, outline: outlineOf(records), connection: { state: "file" }, expired: 0, forgotten, again: () => undefined }),
    [stored],
  );
  useMarks(live);
  return (
    <main class="session">
      <p class="notice">A file of {timeOf(saved)}{view === "" ? "" : `, masked by ${view}`}. It shows the session as it was then, and loads nothing.</p>
      <SessionView live={live} only={tabs} tab={tab} onTab={setTab} selected={selected} onSelect={setSelected} at={at} onSeek={setAt} />
    </main>
  );
}
