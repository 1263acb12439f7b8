import { useChat } from '@ai-sdk/react';
import { useEffect, useRef, useState } from 'react';
import { sendsAnswers } from './answers';
import { Composer } from './composer';
import { useReconnect } from './connection';
import type { Cursor } from './cursor';
import { Message } from './message';
import { explain, isStale } from './problem';
import { loadSnapshot, type Snapshot } from './snapshot';
import { newTransport, requestStop } from './transport';
import { useBrowserTools } from './use-browser-tools';

type Props = {
  id: string;
  snapshot: Snapshot;
  reload: (why?: string) => void;
  draft: string;
  setDraft: (text: string) => void;
};

// Chat is one chat, from a snapshot on.
export function Chat({ id, snapshot, reload, draft, setDraft }: Props) {
  const [cursor] = useState<Cursor>(() => ({
    id: String(snapshot.streamSequence),
    counts: snapshot.status === 'active',
  }));
  const [transport] = useState(() => newTransport(cursor));
  const [sendAutomaticallyWhen] = useState(sendsAnswers);
  const connection = useRef<ReturnType<typeof useReconnect>>(null);

  const chat = useChat({
    id,
    messages: snapshot.messages,
    resume: true,
    transport,
    sendAutomaticallyWhen,
    onFinish: (end) => connection.current?.onFinish(end),
    onError: (error) => {
      connection.current?.onError(error);
      if (isStale(error)) reload(explain(error));
    },
    onData: ({ type, data }) => {
      // A worker died, and what it had not finished was taken back. What this page
      // shows of it can only be replaced by the whole message.
      if (type === 'data-truncated') void chat.stop().then(() => reload());
      if (type === 'data-resume-rejected') reload((data as { message?: string }).message);
    },
  });
  const { messages, status, error, sendMessage, regenerate, resumeStream } = chat;
  connection.current = useReconnect(resumeStream);

  const [editing, setEditing] = useState<string>(); // id of a message
  const busy = status === 'submitted' || status === 'streaming';
  const failed = status === 'ready' && snapshot.status === 'failed' && messages === snapshot.messages;
  const unanswered = messages.at(-1)?.role === 'user';

  useBrowserTools(messages.at(-1), status === 'ready', chat.addToolOutput);
  useFreshness(id, cursor, status === 'ready', reload);

  const submit = (text: string) => {
    setDraft('');
    setEditing(undefined);
    void sendMessage({ text, messageId: editing });
  };

  return (
    <main data-status={status} aria-busy={busy}>
      <ol className="messages" aria-live="polite">
        {messages.map((message) => (
          <Message
            key={message.id}
            message={message}
            edit={busy || message.role !== 'user' ? undefined : (text) => {
              setEditing(message.id);
              setDraft(text);
            }}
            decide={chat.addToolApprovalResponse}
          />
        ))}
      </ol>
      {connection.current.reconnecting && !busy ? (
        <p className="notice" role="status">The connection is lost. Trying again…</p>
      ) : (
        error && <p className="failure" role="alert">{explain(error)}</p>
      )}
      {failed && <p className="failure" role="alert">The last answer has failed.</p>}
      <Composer
        draft={draft}
        setDraft={setDraft}
        submit={submit}
        stop={busy ? () => requestStop(id).catch((e) => reload(explain(e))) : undefined}
        again={!busy && messages.length > 0 ? () => void regenerate() : undefined}
        againLabel={unanswered ? 'Send again' : 'Answer again'}
        cancelEdit={editing ? () => (setEditing(undefined), setDraft('')) : undefined}
      />
    </main>
  );
}

// useFreshness looks whether the chat has gone on elsewhere, in another tab or on
// another device, whenever somebody comes back to the page.
function useFreshness(id: string, cursor: Cursor, idle: boolean, reload: () => void) {
  useEffect(() => {
    if (!idle) return;
    const look = async () => {
      if (document.visibilityState !== 'visible') return;
      const now = await loadSnapshot(id).catch(() => undefined); // next time, then
      if (now && (now.status === 'active' || String(now.streamSequence) !== cursor.id)) reload();
    };
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, [id, cursor, idle, reload]);
}
