import { remember, remembered } from "./remember.js";

/** The name under which the tab keeps the token of a shared session. */
const kept = "shared";

/** The token of a shared session. It is "" on all other pages, whose credential is a cookie. */
let token = "";

/** bearer returns the token that requests send, "" for none. */
export function bearer(): string {
  return token;
}

/** setBearer makes all requests send a token, or none with "". */
export function setBearer(text: string): void {
  token = text;
}

/** authorized adds the token to a request. */
export function authorized(init: RequestInit): RequestInit {
  return token === "" ? init : { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } };
}

/** takeToken moves the token of a link from the address to the storage of this tab, so that a reload has it and the history of the browser does not. */
export function takeToken(): string {
  const text = location.hash.slice(1);
  if (text !== "") {
    remember(() => sessionStorage, kept, text);
    history.replaceState(null, "", location.pathname);
  }
  return remembered(() => sessionStorage, kept);
}

/** The claims of a token that the page shows. The page does not verify them: the server does. */
export interface Claims {
  /** The session, "" if the token is not for exactly one. */
  session: string;
  /** The view, "" for the default one of the server. */
  view: string;
  /** The expiry in Unix milliseconds. */
  until: number;
}

/** claimsOf reads a JSON Web Token, and returns undefined for another text. */
export function claimsOf(text: string): Claims | undefined {
  try {
    const part = (text.split(".")[1] ?? "").replace(/-/g, "+").replace(/_/g, "/");
    const bytes = Uint8Array.from(atob(part), (c) => c.charCodeAt(0));
    const { sid, view, exp } = JSON.parse(new TextDecoder().decode(bytes)) as { sid?: unknown; view?: unknown; exp?: unknown };
    if (typeof exp !== "number") return undefined;
    const session = one(sid);
    return { session: session.endsWith("*") ? "" : session, view: one(view), until: exp * 1000 };
  } catch {
    return undefined;
  }
}

/** one returns the text of a claim that is a text, or a list of one text. */
function one(claim: unknown): string {
  const list: unknown[] = Array.isArray(claim) ? claim : [claim];
  return list.length === 1 && typeof list[0] === "string" ? list[0] : "";
}
