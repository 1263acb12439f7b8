// Command login is the backend of the example app for a deployment with authenticators: it knows the users of the app, and signs a session token of Tailrace
// for each. A backend of your own does the same in the place where it checks passwords.
//
//	go run ./examples/chat/login -dir data/login                        writes auth.json and keys.json for Tailrace, and serves /login and /token
//	TAILRACE_AUTH=data/login/auth.json TAILRACE_CHAT_AGENT=assistant make run
//
// Every client can sign in as any of its users: ann and bob with their own chats, carl, whose token is not enough for approvals, and sue, whose token reads and
// decides in all chats.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// users are the rights of each user.
var users = map[string]auth.Grant{
	"ann":  {Scopes: auth.ScopeRead | auth.ScopeChat | auth.ScopeAnswer | auth.ScopeStop, Sessions: auth.Sessions{Own: true}},
	"bob":  {Scopes: auth.ScopeRead | auth.ScopeChat | auth.ScopeAnswer | auth.ScopeStop, Sessions: auth.Sessions{Own: true}},
	"carl": {Scopes: auth.ScopeRead | auth.ScopeChat | auth.ScopeStop, Sessions: auth.Sessions{Own: true}},
	"sue":  {Scopes: auth.ScopeRead | auth.ScopeAnswer, Sessions: auth.Sessions{All: true}},
}

func main() {
	listen := flag.String("listen", "127.0.0.1:5175", "address")
	dir := flag.String("dir", "data/login", "directory of the signing key, and of the files for Tailrace")
	tenant := flag.String("tenant", "default", "tenant of all users")
	lifetime := flag.Duration("lifetime", 15*time.Minute, "validity of a token")
	behind := flag.Duration("behind", 0, "how far the clock of this program is behind, for tests")
	flag.Parse()
	if err := serve(*listen, *dir, *tenant, *lifetime, *behind); err != nil {
		fmt.Fprintln(os.Stderr, "login:", err)
		os.Exit(1)
	}
}

func serve(listen, dir, tenant string, lifetime, behind time.Duration) error {
	minter, err := newMinter(dir, behind)
	if err != nil {
		return err
	}
	b := &backend{minter: minter, tenant: tenant, lifetime: lifetime, users: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", b.login)
	mux.HandleFunc("POST /token", b.token)
	server := &http.Server{Addr: listen, Handler: http.NewCrossOriginProtection().Handler(mux), ReadTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

const issuer, audience = "https://chat.example", "tailrace"

// newMinter reads the signing key, or creates it, and writes the files for Tailrace.
func newMinter(dir string, behind time.Duration) (*auth.Minter, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "signing-key.pem")
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = newKey(); err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	id, key, err := auth.ParseSigningKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	minter, err := auth.NewMinter(auth.MinterConfig{
		Issuer: issuer, Audience: audience, KeyID: id, Key: key, Now: func() time.Time { return time.Now().Add(-behind) },
	})
	if err != nil {
		return nil, err
	}
	keys, err := minter.PublicKeys()
	if err != nil {
		return nil, err
	}
	file, err := filepath.Abs(filepath.Join(dir, "keys.json"))
	if err != nil {
		return nil, err
	}
	type tokens struct {
		Issuer   string `json:"issuer"`
		Audience string `json:"audience"`
		KeysFile string `json:"keysFile"`
	}
	settings, err := json.Marshal(map[string][]tokens{"sessionTokens": {{issuer, audience, file}}})
	if err != nil {
		return nil, err
	}
	return minter, errors.Join(os.WriteFile(file, keys, 0o600), os.WriteFile(filepath.Join(dir, "auth.json"), settings, 0o600))
}

func newKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), err
}

type backend struct {
	minter   *auth.Minter
	tenant   string
	lifetime time.Duration

	mu    sync.Mutex // guards users
	users map[string]string
}

const cookie = "chat_user"

// login is where a backend of your own checks a password.
func (b *backend) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		User string `json:"user"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&body); err != nil {
		http.Error(w, "malformed body", http.StatusBadRequest)
		return
	}
	if _, ok := users[body.User]; !ok {
		http.Error(w, "there is no such user", http.StatusUnauthorized)
		return
	}
	id := rand.Text()
	b.mu.Lock()
	b.users[id] = body.User
	b.mu.Unlock()
	//nolint:gosec // not Secure: an example is served without TLS
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	w.WriteHeader(http.StatusNoContent)
}

// token signs a token for the user of the app.
func (b *backend) token(w http.ResponseWriter, r *http.Request) {
	grant, ok := b.grant(r)
	if !ok {
		http.Error(w, "no user is signed in", http.StatusUnauthorized)
		return
	}
	minted, err := b.minter.Mint(grant, b.lifetime)
	if err != nil {
		http.Error(w, "no token", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// The lifetime and not the time of expiry: the clock of the browser may be wrong.
	fmt.Fprintf(w, `{"token":%q,"expiresIn":%d}`, minted.Token, int(b.lifetime.Seconds()))
}

func (b *backend) grant(r *http.Request) (auth.Grant, bool) {
	c, err := r.Cookie(cookie)
	if err != nil {
		return auth.Grant{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	user, ok := b.users[c.Value]
	grant := users[user]
	grant.Tenant, grant.Subject = b.tenant, user
	return grant, ok
}
