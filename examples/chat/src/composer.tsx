import type { FormEvent } from 'react';

type Props = {
  draft: string;
  setDraft: (text: string) => void;
  submit: (text: string) => void;
  stop?: () => void;
  again?: () => void;
  againLabel: string;
  cancelEdit?: () => void;
};

export function Composer({ draft, setDraft, submit, stop, again, againLabel, cancelEdit }: Props) {
  const send = (event: FormEvent) => {
    event.preventDefault();
    if (draft.trim() !== '' && !stop) submit(draft);
  };
  return (
    <form className="composer" onSubmit={send}>
      <label htmlFor="draft">{cancelEdit ? 'Your message, edited' : 'Your message'}</label>
      <input id="draft" autoComplete="off" value={draft} onChange={(event) => setDraft(event.target.value)} />
      {stop ? (
        <button type="button" id="stop" onClick={stop}>Stop</button>
      ) : (
        <button type="submit" id="send" disabled={draft.trim() === ''}>Send</button>
      )}
      {cancelEdit && <button type="button" onClick={cancelEdit}>Cancel</button>}
      {again && <button type="button" id="again" onClick={again}>{againLabel}</button>}
    </form>
  );
}
