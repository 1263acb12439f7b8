import { useRef, useState } from 'react';
import { isAnswered, useTailraceChat } from 'tailrace-client/ai';
import { Switcher, useBranches } from './branches';
import { Composer } from './composer';
import { Log } from './log';
import { Login } from './login';
import { Message } from './message';
import { getToken, SignedOut } from './token';

const tools = {
  page_time_zone: () => Intl.DateTimeFormat().resolvedOptions().timeZone,
  page_language: () => navigator.language,
};

export function Chat({ id }: { id: string }) {
  const [notice, setNotice] = useState('');
  const [draft, setDraft] = useState('');
  const [editing, setEditing] = useState<string>(); // id of a message
  const sending = useRef(''); // the message that is being sent
  const replaces = useRef(false); // it, or the answer, replaces another version

  const chat = useTailraceChat({
    id,
    getToken,
    tools,
    onFinish: ({ isError }) => {
      if (isError) return;
      sending.current = '';
      if (replaces.current || branch.body) void branch.show();
      replaces.current = false;
    },
    onReload: (why) => {
      setNotice(why?.message ?? '');
      if (why && sending.current) setDraft(sending.current); // refused, and not part of the chat
      sending.current = '';
    },
  });
  const { messages, status, error, snapshot, connection } = chat;
  const branch = useBranches(chat);
  const busy = status === 'submitted' || status === 'streaming';
  const undelivered = !busy && isAnswered({ messages });
  const failed = status === 'ready' && snapshot?.status === 'failed' && messages === snapshot.messages;

  const submit = (text: string) => {
    sending.current = text;
    replaces.current = editing !== undefined;
    setDraft('');
    setEditing(undefined);
    void chat.sendMessage({ text, messageId: editing }, { body: branch.body });
  };
  const again = () => {
    replaces.current = !undelivered;
    void (undelivered ? chat.sendMessage() : chat.regenerate({ body: branch.body }));
  };
  const edit = (message: string) => (text: string) => {
    setEditing(message);
    setDraft(text);
  };

  if (error instanceof SignedOut) return <Login done={chat.reload} />;
  return (
    <>
      <p className="notice" role="status">{connection === 'live' ? notice : 'The connection is lost. Trying again…'}</p>
      {snapshot && (
        <main data-status={status} aria-busy={busy}>
          <ol className="messages" aria-live="polite">
            {messages.map((message) => (
              <Message
                key={message.id}
                message={message}
                edit={busy || message.role !== 'user' ? undefined : edit(message.id)}
                versions={!busy && <Switcher ids={branch.branches[message.id]} shown={message.id} show={(other) => void branch.show(other)} />}
                decide={message === messages.at(-1) ? chat.addToolApprovalResponse : undefined}
              />
            ))}
          </ol>
          {failed && <p className="failure" role="alert">{snapshot.error?.message ?? 'The last answer has failed.'}</p>}
          <Composer
            draft={draft}
            setDraft={setDraft}
            submit={submit}
            stop={busy ? () => void chat.stop().catch((why: Error) => setNotice(why.message)) : undefined}
            again={!busy && messages.length > 0 ? again : undefined}
            againLabel={undelivered || messages.at(-1)?.role === 'user' ? 'Send again' : 'Answer again'}
            cancelEdit={editing ? () => (setEditing(undefined), setDraft('')) : undefined}
          />
        </main>
      )}
      {error && <p className="failure" role="alert">{error.message}</p>}
      <Log id={id} />
    </>
  );
}
