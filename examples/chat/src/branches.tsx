import { useState } from 'react';
import type { TailraceChat } from 'tailrace-client/ai';

// useBranches shows earlier answers and earlier versions of a message. What is sent then follows what is shown.
export function useBranches({ id, snapshot, transport, setMessages }: TailraceChat) {
  const [shown, setShown] = useState<{ of: unknown; branches: Record<string, string[]>; last?: string }>();
  const { branches, last } = shown?.of === snapshot && shown ? shown : { branches: snapshot?.branches ?? {} };

  // show shows the branch that has a message, or the latest one. The snapshot also gives the ids of the log to messages of this page.
  const show = async (message?: string) => {
    const other = await transport.snapshot(id, { branch: message });
    setMessages(other.messages);
    setShown({ of: snapshot, branches: other.branches ?? {}, last: message && other.messages.at(-1)?.id });
  };
  return { branches, show, body: last ? { branch: last } : undefined };
}

type Props = { ids: string[] | undefined; shown: string; show: (id?: string) => void };

// Switcher has the alternatives in the place of a message: the second one of three is 2 / 3.
export function Switcher({ ids, shown, show }: Props) {
  if (!ids) return null;
  const n = ids.indexOf(shown);
  return (
    <span className="switcher" role="group" aria-label="Versions">
      <button type="button" aria-label="Earlier version" disabled={n < 1} onClick={() => show(ids[n - 1])}>‹</button>
      <span>{n + 1} / {ids.length}</span>
      <button type="button" aria-label="Later version" disabled={n === ids.length - 1} onClick={() => show(ids[n + 1])}>›</button>
    </span>
  );
}
