import { useEffect, useRef, useState } from "preact/hooks";

import type { OutlineNode } from "../../../../clients/ts/src/outline.js";
import { find, mostHits, type Hit } from "./find.js";
import { oneLine, shorten } from "./format.js";
import { useKeys } from "./keys.js";
import type { View } from "./live.js";
import { useSlices } from "./slices.js";
import { labelOf } from "./words.js";

/** The place in the hits of a user who has asked for the first one before it was found. */
const awaited = -2;

/** The search in a session: the texts, inputs, results and errors at the position. */
export function Find({ live, onHit }: { live: View; onHit: (node: string) => void }) {
  const { outline, connection } = live;
  const [text, setText] = useState("");
  const [at, setAt] = useState(-1);
  const write = (value: string) => (setText(value), setAt(-1));
  const field = useRef<HTMLInputElement>(null);
  const position = connection.state === "live" ? 0 : outline.position; // each piece of a text that is being written would start the search again
  const result = useSlices(() => search(outline.nodes, text), [outline, outline.nodes.length, position, text], true);
  const hits = result?.text === text ? result.hits : undefined; // undefined while the text is searched
  const go = (to: number) => {
    if (hits === undefined) return setAt(awaited);
    const hit = hits[(to + hits.length) % hits.length];
    setAt(hit === undefined ? -1 : hits.indexOf(hit));
    if (hit !== undefined) onHit(hit.node.id);
  };
  useEffect(() => void (at === awaited && hits !== undefined && go(0)));
  useKeys({ "/": () => field.current?.focus(), n: () => go(at + 1), p: () => go(Math.max(at, 0) - 1) });
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Enter") go(event.shiftKey ? Math.max(at, 0) - 1 : at + 1);
    if (event.key === "Escape") (write(""), field.current?.blur());
  };
  return (
    <search class="find">
      <input ref={field} type="search" value={text} placeholder="Find  /" aria-label="Find in this session" onInput={(event) => write(event.currentTarget.value)} onKeyDown={pressed} />
      {text !== "" && (
        <>
          <span class="quiet" role="status">{found(hits, at)}</span>
          <button type="button" aria-label="previous hit" disabled={!hits?.length} onClick={() => go(Math.max(at, 0) - 1)}>‹</button>
          <button type="button" aria-label="next hit" disabled={!hits?.length} onClick={() => go(at + 1)}>›</button>
        </>
      )}
      {text !== "" && hits !== undefined && hits.length > 0 && (
        <ol class="hits" aria-label="Hits" tabIndex={0}>
          {hits.map((hit, i) => (
            <li key={`${hit.node.id} ${hit.where}`}>
              <button type="button" aria-current={i === at} onClick={() => go(i)}>
                <span class="quiet">{placeOf(hit)}</span>
                <span dir="auto">{oneLine(hit.before)}<mark>{oneLine(hit.match)}</mark>{oneLine(hit.after)}</span>
              </button>
            </li>
          ))}
        </ol>
      )}
    </search>
  );
}

/** placeOf is the node of a hit and the part of it, once if both have one name. */
function placeOf({ node, where }: Hit): string {
  const label = shorten(labelOf(node), 40);
  return label === where || node.kind === where || where === "text" ? label : `${label}, ${where}`;
}

function* search(nodes: readonly OutlineNode[], text: string): Generator<void, { text: string; hits: Hit[] }> {
  return { text, hits: text === "" ? [] : yield* find(nodes, text) };
}

function found(hits: readonly Hit[] | undefined, at: number): string {
  if (hits === undefined) return "searching";
  if (hits.length === 0) return "not found";
  const many = hits.length === mostHits ? `the first ${mostHits}` : String(hits.length);
  return at < 0 ? many : `${at + 1} of ${many}`;
}
