// Requests with the credential of the user, which is a cookie: EventSource cannot send a header. The page asks for
// a token when the edge wants a credential, trades it for the cookie, and keeps neither.

let open = null; // promise of the form that is shown

// request is fetch. It waits for the user while the edge refuses the request for lack of a valid credential.
export async function request(url, init) {
  for (let asked = false; ; asked = true) {
    const response = await fetch(url, init);
    if (response.status !== 401) return response;
    open ??= login(asked).finally(() => { open = null; });
    await open;
  }
}

// login shows the form until the edge accepts a token.
function login(again) {
  const form = document.getElementById('login');
  const [field, failure] = [form.querySelector('input'), form.querySelector('.failure')];
  failure.textContent = again ? 'The browser has not stored the cookie. It does so over https and on localhost only.' : '';
  form.hidden = false;
  field.focus();
  return new Promise((resolve) => {
    form.onsubmit = async (event) => {
      event.preventDefault();
      const token = field.value.trim();
      field.value = '';
      failure.textContent = await trade(token);
      if (failure.textContent) return;
      form.hidden = true;
      resolve();
    };
  });
}

// trade returns why the edge has not set the cookie, '' if it has.
async function trade(token) {
  try {
    const response = await fetch('/v1/session-cookie', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
    if (response.ok) return '';
    const { title, detail } = await response.json();
    return detail ? `${title}: ${detail}` : title;
  } catch {
    return 'The server is away, or this is not a token.';
  }
}
