import { useState } from 'react';
import { signIn } from './token';

// Login asks the backend of the app to recognise the user.
export function Login({ done }: { done: () => void }) {
  const [failure, setFailure] = useState('');
  const submit = (form: FormData) =>
    signIn(String(form.get('user'))).then(done, (error) => setFailure(error.message));
  return (
    <form className="login" action={submit}>
      <label htmlFor="user">Sign in as ann, bob, carl or sue</label>
      <input id="user" name="user" autoComplete="username" required />
      <button type="submit">Sign in</button>
      {failure && <p className="failure" role="alert">{failure}</p>}
    </form>
  );
}
