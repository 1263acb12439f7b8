import { useChat } from '@ai-sdk/react';
import { useRef, useState } from 'react';
import { isAnswered, sendsAnswers } from './answers';
import { Composer } from './composer';
import { useReconnect } from './connection';
import type { Cursor } from './cursor';
import { useFreshness } from './freshness';
import { Message } from './message';
import { explain, isStale } from './problem';
import type { Snapshot } from './snapshot';
import { newTransport, requestStop } from './transport';
import { useBrowserTools } from './use-browser-tools';

type Props = {
  id: string;
  snapshot: Snapshot;
  reload: (why?: string) => void;
  draft: string;
  setDraft: (text: string) => void;
};

// Chat is one chat, starting from a snapshot.
export function Chat({ id, snapshot, reload, draft, setDraft }: Props) {
  const [cursor] = useState<Cursor>(() => ({
    id: String(snapshot.streamSequence),
    counts: snapshot.status === 'active',
  }));
  const [transport] = useState(() => newTransport(cursor));
  const [sendAutomaticallyWhen] = useState(sendsAnswers);
  const pendingText = useRef(''); // message that is being sent
  const connection = useRef<ReturnType<typeof useReconnect>>(null);

  const chat = useChat({
    id,
    messages: snapshot.messages,
    resume: true,
    transport,
    sendAutomaticallyWhen,
    onFinish: (end) => {
      connection.current?.onFinish(end);
      if (!end.isError) pendingText.current = '';
    },
    onError: (error) => {
      connection.current?.onError(error);
      if (!isStale(error)) return;
      if (pendingText.current) setDraft(pendingText.current); // rejected, and not part of the chat
      reload(explain(error));
    },
    onData: ({ type, data }) => {
      // A worker crashed, and its uncommitted output was rolled back. The page must replace the whole
      // message.
      if (type === 'data-truncated') void chat.stop().then(() => reload());
      if (type === 'data-resume-rejected') reload((data as { message?: string }).message);
    },
  });
  const { messages, status, error, sendMessage, regenerate, resumeStream } = chat;
  connection.current = useReconnect(cursor, resumeStream);

  const [editing, setEditing] = useState<string>(); // id of a message
  const busy = status === 'submitted' || status === 'streaming';
  const failed = status === 'ready' && snapshot.status === 'failed' && messages === snapshot.messages;
  const undelivered = !busy && isAnswered({ messages });

  useBrowserTools(messages.at(-1), status === 'ready', chat.addToolOutput);
  useFreshness(id, cursor, status === 'ready', reload);

  const submit = (text: string) => {
    pendingText.current = text;
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
            decide={message === messages.at(-1) ? chat.addToolApprovalResponse : undefined}
          />
        ))}
      </ol>
      {connection.current.reconnecting && !busy ? (
        <p className="notice" role="status">The connection is lost. Trying again…</p>
      ) : (
        error && <p className="failure" role="alert">{explain(error)}</p>
      )}
      {failed && <p className="failure" role="alert">{snapshot.error?.message ?? 'The last answer has failed.'}</p>}
      <Composer
        draft={draft}
        setDraft={setDraft}
        submit={submit}
        stop={busy ? () => requestStop(id).catch((e) => reload(explain(e))) : undefined}
        again={!busy && messages.length > 0 ? () => void (undelivered ? sendMessage() : regenerate()) : undefined}
        againLabel={undelivered || messages.at(-1)?.role === 'user' ? 'Send again' : 'Answer again'}
        cancelEdit={editing ? () => (setEditing(undefined), setDraft('')) : undefined}
      />
    </main>
  );
}
