import { Chat, useChat, type UseChatHelpers } from "@ai-sdk/react";
import {
  getToolName,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from "ai";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { ConnectionState } from "./ai_answer.js";
import { isStale, TailraceChatTransport, type ChatSnapshot, type TransportOptions } from "./ai_transport.js";
import { TailraceError } from "./errors.js";

/** A function that runs in the page, by the name that the agent calls. */
export type PageTools = Record<string, (input: any) => unknown>;

/** The options of the Chat of @ai-sdk/react, whose package "ai" may be another copy than that of the page. */
type ChatInit<M extends UIMessage> = ConstructorParameters<typeof Chat<M>>[0];

/** What to show, and what is called. All but id are optional. */
export interface TailraceChatOptions<M extends UIMessage = UIMessage>
  extends Omit<TransportOptions, "stopOnAbort" | "onConnection">,
    Omit<ChatInit<M>, "id" | "messages" | "transport" | "sendAutomaticallyWhen"> {
  /** The id of the chat. */
  id: string;
  /** The tools that the page runs, also for calls that were pending when it was loaded. */
  tools?: PageTools;
  /** Called when the chat is loaded again: with the refusal that the page is to show, or undefined after records were removed from the log. */
  onReload?: (why: Error | undefined) => void;
}

/** What useChat returns, and the connection. */
export interface TailraceChat<M extends UIMessage = UIMessage> extends Omit<UseChatHelpers<M>, "stop"> {
  connection: ConnectionState;
  /** The messages are not there yet. What is sent meanwhile waits. */
  loading: boolean;
  /** The state with which the page began, or was loaded again; undefined while loading. */
  snapshot: ChatSnapshot<M> | undefined;
  /** Stops the run, which ends the answer: closing a connection stops nothing. */
  stop: () => Promise<void>;
  /** Loads the chat again. */
  reload: () => void;
  transport: TailraceChatTransport<M>;
}

/** A chat that was loaded. */
interface Opened<M extends UIMessage> {
  chat: Chat<M>;
  snapshot: ChatSnapshot<M>;
  first: First<M>;
  closed: boolean;
}

/**
 * useTailraceChat is useChat for a chat that survives its page and its connections. It loads the messages and the answer in progress, continues after lost connections,
 * runs the tools of the page, sends answers to calls once, and looks again when the page becomes visible or gets the focus. The functions of the last render are called.
 */
export function useTailraceChat<M extends UIMessage = UIMessage>(options: TailraceChatOptions<M>): TailraceChat<M> {
  const { id, url, view, agentType, token } = options;
  const latest = useRef(options);
  latest.current = options;
  const [connection, setConnection] = useState<ConnectionState>("live");
  const transport = useMemo(() => newTransport(latest, setConnection), [url, view, agentType, token]);
  const first = useMemo(() => newFirst(id, transport), [id, transport]);
  const [loads, setLoads] = useState(0);
  const [failure, setFailure] = useState<Error>();
  const [loaded, setLoaded] = useState<Opened<M>>();
  const [resumed, setResumed] = useState<Opened<M>>(); // nothing of its answer is to be read any more
  const opened = loaded?.first === first ? loaded : undefined;
  const chat = useChat<M>({ chat: opened?.chat ?? first.empty });

  const again = useCallback((why?: Error) => {
    // A result that is too large is so the next time, too: its tool is not run again.
    if (!(why instanceof TailraceError && why.code === "CONTENT_TOO_LARGE")) first.begun.clear();
    setLoads((n) => n + 1);
    latest.current.onReload?.(why);
  }, [first]);
  const reload = useCallback(() => setLoads((n) => n + 1), []);

  useEffect(() => {
    const left = new AbortController();
    transport.load(id, left.signal).then(
      (snapshot) => {
        if (left.signal.aborted) return;
        const chat = newChat(latest, transport, snapshot.messages, again);
        setFailure(undefined);
        setLoaded({ chat, snapshot, first, closed: false });
      },
      (error: Error) => {
        if (!left.signal.aborted) setFailure(error);
      },
    );
    return () => left.abort();
  }, [id, transport, loads, first, again]);

  useEffect(() => {
    if (opened === undefined) return;
    if (opened.closed) return reload(); // the page was hidden: its stream ended in the middle
    void opened.chat.resumeStream().then(() => setResumed(opened));
    opened.first.open(opened.chat); // after the request for the answer in progress, which a message replaces
    return () => {
      opened.closed = true;
      void opened.chat.stop();
    };
  }, [opened, reload]);

  const idle = opened !== undefined && opened === resumed && chat.status === "ready";
  const last = chat.messages.at(-1);
  useEffect(() => {
    if (idle) runTools(opened, last, latest.current.tools ?? {});
  }, [idle, opened, last]);

  const still = opened !== undefined && chat.status !== "submitted" && chat.status !== "streaming";
  const shown = useRef<Opened<M>>(undefined);
  shown.current = still ? opened : undefined;
  const compare = useCallback(({ status, streamSequence }: ChatSnapshot<M>) => {
    if (shown.current && (status === "active" || streamSequence !== transport.position(id))) reload();
  }, [id, transport, reload]);

  useEffect(() => {
    if (!still) return;
    const left = new AbortController();
    let soon: ReturnType<typeof setTimeout>;
    const look = () => {
      if (document.visibilityState === "visible") transport.snapshot(id, { signal: left.signal }).then(compare, () => {}); // an error: again the next time
    };
    const shown = () => {
      clearTimeout(soon); // a tab that is selected becomes visible and gets the focus: one request
      soon = setTimeout(look, 50);
    };
    globalThis.document?.addEventListener("visibilitychange", shown, left);
    globalThis.addEventListener?.("focus", shown, left);
    return () => {
      left.abort();
      clearTimeout(soon);
    };
  }, [still, id, transport, compare]);

  const offline = connection === "offline";
  useEffect(() => {
    if (!still || !offline) return;
    const left = new AbortController();
    transport.reach(id, left.signal).then(compare, () => {}); // a refusal: the next request has it
    return () => left.abort();
  }, [still, offline, id, transport, compare]);

  const stop = useCallback(async () => {
    if (!(await transport.stop(id))) await opened?.chat.stop(); // of a message that was not delivered
  }, [transport, id, opened]);

  return {
    ...chat,
    id,
    sendMessage: opened ? chat.sendMessage : (...message) => first.chat.then((there) => there.sendMessage(...message)),
    error: failure ?? chat.error,
    connection,
    loading: opened === undefined && failure === undefined,
    snapshot: opened?.snapshot,
    stop,
    reload,
    transport,
  };
}

/** A chat before its messages are there. */
interface First<M extends UIMessage> {
  empty: Chat<M>;
  chat: Promise<Chat<M>>;
  open: (chat: Chat<M>) => void;
  begun: Set<string>; // calls whose tools have been started
}

function newFirst<M extends UIMessage>(id: string, transport: TailraceChatTransport<M>): First<M> {
  let open: First<M>["open"] = () => {};
  const chat = new Promise<Chat<M>>((resolve) => (open = resolve));
  return { empty: new Chat<M>({ id, transport }), chat, open, begun: new Set() };
}

type Latest<M extends UIMessage> = { readonly current: TailraceChatOptions<M> };

function newTransport<M extends UIMessage>(latest: Latest<M>, onConnection: (state: ConnectionState) => void): TailraceChatTransport<M> {
  const { url, view, agentType, token, credentials, fetch, getToken } = latest.current;
  return new TailraceChatTransport<M>({
    ...(url !== undefined && { url }),
    ...(view !== undefined && { view }),
    ...(agentType !== undefined && { agentType }),
    ...(token !== undefined && { token }),
    ...(credentials !== undefined && { credentials }),
    ...(fetch && { fetch }),
    ...(getToken && { getToken: (request) => latest.current.getToken?.(request) ?? "" }),
    stopOnAbort: false, // the AI SDK aborts also for a page that is closed
    onConnection,
  });
}

function newChat<M extends UIMessage>(latest: Latest<M>, transport: TailraceChatTransport<M>, messages: M[], again: (why?: Error) => void): Chat<M> {
  const { id, generateId, messageMetadataSchema, dataPartSchemas } = latest.current;
  const chat: Chat<M> = new Chat<M>({
    id,
    messages,
    transport,
    ...(generateId && { generateId }),
    ...(messageMetadataSchema && { messageMetadataSchema }),
    ...(dataPartSchemas && { dataPartSchemas }),
    sendAutomaticallyWhen: sendsOnce(),
    onToolCall: (call) => latest.current.onToolCall?.(call),
    onFinish: (end) => latest.current.onFinish?.(end),
    onError: (error) => {
      latest.current.onError?.(error);
      if (isStale(error)) again(error);
    },
    onData: (part) => {
      latest.current.onData?.(part);
      const { type, data } = part as { type: string; data: { message?: string } };
      // A worker has died, and the records of its step were removed: the page has them in its message.
      if (type === "data-truncated") void chat.stop().then(() => again());
      if (type === "data-resume-rejected") again(new TailraceError(data.message ?? "The answer was refused.", 0, { code: "RESUME_REJECTED" }));
    },
  });
  return chat;
}

/** isAnswered reports whether all calls of the last step that waited for the page have answers. When no answer is in progress, they were not delivered. */
export function isAnswered(chat: { messages: UIMessage[] }): boolean {
  return lastAssistantMessageIsCompleteWithToolCalls(chat) || lastAssistantMessageIsCompleteWithApprovalResponses(chat);
}

/** sendsOnce posts answers after the last one of a step. A run that was stopped before it resumed still has the answered call as its last part: it is not posted again. */
function sendsOnce(): (chat: { messages: UIMessage[] }) => boolean {
  let sent = "";
  return (chat) => {
    if (!isAnswered(chat)) return false;
    const calls = chat.messages.at(-1)?.parts.filter(isToolUIPart) ?? [];
    const answers = calls.map((call) => call.toolCallId).join();
    if (answers === sent) return false;
    sent = answers;
    return true;
  };
}

/** runTools runs the pending calls of the last message. onToolCall is not called for those that were pending when the page was loaded. */
function runTools<M extends UIMessage>({ chat, first: { begun } }: Opened<M>, last: M | undefined, tools: PageTools): void {
  if (last?.role !== "assistant") return;
  for (const part of last.parts) {
    if (!isToolUIPart(part) || part.state !== "input-available" || part.providerExecuted) continue;
    const { toolCallId } = part;
    const name = getToolName(part);
    const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
    if (!tool || begun.has(toolCallId)) continue;
    begun.add(toolCallId);
    const answer = (output: object) => chat.addToolOutput({ tool: name, toolCallId, ...output } as never);
    Promise.resolve(part.input)
      .then(tool)
      .then((output) => answer({ output }), (error) => answer({ state: "output-error", errorText: String(error) }));
  }
}
