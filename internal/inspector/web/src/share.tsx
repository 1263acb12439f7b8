import { useState } from "preact/hooks";

import { explain, postForJSON, Problem, remove } from "./api.js";
import { Copy, Dialog } from "./dialog.js";
import { reasonAgainst, type Edge } from "./edge.js";
import { timeOf } from "./format.js";
import { remember, remembered } from "./remember.js";
import { nameOfView } from "./view_menu.js";

/** The lifetimes of a link, in minutes. */
const lifetimes: ReadonlyArray<[number, string]> = [[60, "1 hour"], [480, "8 hours"], [1440, "1 day"]];

/** A link that was made in this browser. Its token is not kept. */
interface Link {
  id: string;
  view: string;
  until: number;
}

interface Minted {
  token: string;
  expiresAt: string;
  tokenId: string;
}

interface ShareDialogProps {
  id: string;
  view: string;
  edge: Edge;
  onClose: () => void;
  /** Offers the file in place of a link. */
  onExport: () => void;
}

/** A link for a reader without an account: a token of the edge for this session, under one view, with the right to read. */
export function ShareDialog({ id, view, edge, onClose, onExport }: ShareDialogProps) {
  const [chosen, setChosen] = useState(edge.views.includes("public") && view === "" ? "public" : view);
  const [minutes, setMinutes] = useState(60);
  const [minted, setMinted] = useState<Minted>();
  const [links, setLinks] = useState(() => linksOf(id));
  const [failure, setFailure] = useState("");
  const [sending, setSending] = useState(false);
  const [refused, setRefused] = useState(reasonAgainst(edge, "admin"));
  const keep = (list: readonly Link[]) => {
    remember(() => localStorage, `links ${id}`, JSON.stringify(list));
    setLinks(list);
  };
  const make = async (event: SubmitEvent) => {
    event.preventDefault();
    setFailure("");
    setSending(true);
    try {
      const named = chosen || (edge.views.includes(edge.view) ? edge.view : "");
      const answer = await postForJSON<Minted>("/v1/tokens", JSON.stringify({ subject: subjectOf(id), scopes: "read", sessions: id, minutes, ...(named !== "" && { view: named }) }));
      setMinted(answer);
      keep([...links, { id: answer.tokenId, view: nameOfView(edge, chosen), until: Date.parse(answer.expiresAt) }]);
    } catch (error) {
      if (error instanceof Problem && (error.status === 404 || error.status === 403)) setRefused(whyNot(error));
      else setFailure(explain(error));
    }
    setSending(false);
  };
  const revoke = (path: string, left: readonly Link[]) => {
    remove(path).then(() => (setFailure(""), setMinted(undefined), keep(left)), (error: unknown) => setFailure(explain(error)));
  };
  return (
    <Dialog title="Share this session" onClose={onClose}>
      {refused !== "" ? (
        <>
          <p>{refused} A file shows the session too, and needs no server.</p>
          <button type="button" class="main" onClick={onExport}>Export a file</button>
        </>
      ) : minted === undefined ? (
        <form class="form" onSubmit={make}>
          <p>Everyone with the link can read this session and its sub-agents, live, and nothing else. A link can be revoked.</p>
          <label>
            View
            <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
              <option value="">{nameOfView(edge)}</option>
              {edge.views.filter((name) => name !== edge.view).map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
          <label>
            Expires after
            <select value={String(minutes)} onChange={(event) => setMinutes(Number(event.currentTarget.value))}>
              {lifetimes.map(([value, text]) => <option key={value} value={String(value)}>{text}</option>)}
            </select>
          </label>
          {nameOfView(edge, chosen) === "everything" && <p class="notice">Nothing is hidden from the reader: not the reasoning, and not the inputs and results of tools.</p>}
          <button type="submit" class="main" disabled={sending}>Make a link</button>
        </form>
      ) : (
        <>
          <p>The link is shown once. It ends {timeOf(Date.parse(minted.expiresAt))}, under the limits of this edge and of your own credential.</p>
          <Copy label="Link" text={`${location.origin}/inspect/shared#${minted.token}`} />
        </>
      )}
      {links.length > 0 && (
        <>
          <h3>Links that were made in this browser</h3>
          <ul class="links-made">
            {links.map((link) => (
              <li key={link.id}>
                <span>{link.view}, until {timeOf(link.until)}</span>
                <button type="button" onClick={() => revoke(`/v1/tokens/${encodeURIComponent(link.id)}`, links.filter((other) => other !== link))}>Revoke</button>
              </li>
            ))}
          </ul>
        </>
      )}
      {refused === "" && <button type="button" class="link" onClick={() => revoke(`/v1/subjects/${encodeURIComponent(subjectOf(id))}/tokens`, [])}>Revoke all links to this session, also those of other users</button>}
      {failure !== "" && <p class="failure" role="alert">{failure}</p>}
    </Dialog>
  );
}

/** subjectOf is the subject of all links to a session, by which they are revoked together. */
function subjectOf(id: string): string {
  return `share:${id}`;
}

/** linksOf returns the links that have not expired. */
function linksOf(id: string): readonly Link[] {
  const text = remembered(() => localStorage, `links ${id}`);
  return text === "" ? [] : (JSON.parse(text) as Link[]).filter(({ until }) => until > Date.now());
}

function whyNot({ status, message }: Problem): string {
  if (status === 404) return "This edge signs no links: TAILRACE_AUTH has no signingKeys.";
  return `The edge refused the link: ${message}. It needs the right "admin", and cannot show more than you may see.`;
}
