//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// provider is an OpenID provider in a process: the program in directory provider, which is a module of its own.
type provider struct {
	url  string
	args []string
	bin  string
	cmd  *exec.Cmd
	http *http.Client
}

const redirectURI = "http://127.0.0.1/callback"

// buildProvider builds the program. It downloads the modules that its go.sum names, if they are not in the cache.
func buildProvider(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "provider")
	for _, args := range [][]string{{"vet", "."}, {"build", "-o", bin, "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = "provider"
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return bin
}

// startProvider starts a provider. Access tokens of its client app-short are valid for a few seconds: Tailrace accepts a token for 30 seconds after its expiry,
// because clocks differ, so the clock of the provider is behind by most of that.
func startProvider(t *testing.T) *provider {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	p := &provider{
		url: "http://" + addr, bin: buildProvider(t),
		args: []string{"-listen", addr, "-redirect", redirectURI, "-keys", filepath.Join(t.TempDir(), "keys.json"), "-short", "5s", "-behind", "28s"},
		http: &http.Client{
			Transport:     &http.Transport{MaxConnsPerHost: 16, MaxIdleConnsPerHost: 16},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	t.Cleanup(p.http.CloseIdleConnections)
	p.start(t)
	return p
}

func (p *provider) start(t *testing.T) {
	t.Helper()
	p.cmd = startCommand(t, os.Environ(), p.bin, p.args...)
	awaitStatusCode(t, p.url+"/.well-known/openid-configuration", http.StatusOK)
}

// kill sends SIGKILL. The keys are in a file; logins and refresh tokens are lost.
func (p *provider) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // the process was killed
}

// rotate makes the provider sign with its next key, and publish another one.
func (p *provider) rotate(t *testing.T) {
	t.Helper()
	resp, err := p.do(t.Context(), "/rotate", url.Values{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("rotate: status %d, %v", resp.StatusCode, err)
	}
}

// do makes a POST with a form, or a GET without one.
func (p *provider) do(ctx context.Context, path string, form url.Values, client string) (*http.Response, error) {
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	to, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	if to, err = to.Parse(path); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, to.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if client != "" {
		req.SetBasicAuth(client, "secret")
	}
	return p.http.Do(req)
}

// login is a user that has logged in at a provider, through a client.
type login struct {
	p      *provider
	client string

	access, id, refresh string
}

// login follows the authorization code flow as a browser and the backend of an application do, and fills in the form of the login page.
func (p *provider) login(ctx context.Context, client, user string) (*login, error) {
	start := url.Values{
		"client_id": {client}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {"openid offline_access"}, "state": {"s"},
	}
	page, err := p.redirect(ctx, "/auth?"+start.Encode(), nil)
	if err != nil {
		return nil, err
	}
	form := url.Values{"id": {page.Query().Get("authRequestID")}, "username": {user}, "password": {"password"}}
	callback, err := p.redirect(ctx, page.Path, form)
	if err != nil {
		return nil, err
	}
	back, err := p.redirect(ctx, callback.RequestURI(), nil)
	if err != nil {
		return nil, err
	}
	l := &login{p: p, client: client}
	err = l.request(ctx, url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {redirectURI}})
	return l, err
}

// redirect returns where a response redirects to.
func (p *provider) redirect(ctx context.Context, path string, form url.Values) (*url.URL, error) {
	resp, err := p.do(ctx, path, form, "")
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusFound {
		return nil, fmt.Errorf("%s: status %d, want a redirect", path, resp.StatusCode)
	}
	return resp.Location()
}

// renew gets a new access token.
func (l *login) renew(ctx context.Context) error {
	return l.request(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {l.refresh}})
}

func (l *login) request(ctx context.Context, form url.Values) (err error) {
	resp, err := l.p.do(ctx, "/oauth/token", form, l.client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	var tokens struct {
		Access  string `json:"access_token"`
		ID      string `json:"id_token"`
		Refresh string `json:"refresh_token"`
		Error   string `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&tokens); err != nil {
		return err
	}
	if tokens.Access == "" || tokens.Refresh == "" {
		return fmt.Errorf("token endpoint: status %d, error %q", resp.StatusCode, tokens.Error)
	}
	l.access, l.id, l.refresh = tokens.Access, tokens.ID, tokens.Refresh
	return nil
}

// mustLogin is login for a test that cannot continue without it.
func (p *provider) mustLogin(t *testing.T, client, user string) *login {
	t.Helper()
	l, err := p.login(t.Context(), client, user)
	if err != nil {
		t.Fatalf("login of %s: %v", user, err)
	}
	return l
}

// authFile writes a TAILRACE_AUTH that accepts the access tokens of the provider for the clients app and app-short.
func (p *provider) authFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "auth.json")
	text := fmt.Sprintf(`{"oidc": [{
		"issuer": %q, "audiences": ["app", "app-short"],
		"tenantClaim": "/organization/id", "tenants": {"org_71": "default"},
		"scopeClaim": "roles", "scopeValues": {"reader": "read", "member": "read chat answer stop"},
		"sessions": "own", "sessionsClaim": "sessions"
	}]}`, p.url)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
