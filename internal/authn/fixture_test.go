package authn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// start is the time of the tests that do not run in a bubble.
var start = time.Unix(1_800_000_000, 0)

// testClock is a clock that a test sets.
type testClock struct{ nanos atomic.Int64 }

func newClock() *testClock {
	c := &testClock{}
	c.nanos.Store(start.UnixNano())
	return c
}

func (c *testClock) now() time.Time       { return time.Unix(0, c.nanos.Load()) }
func (c *testClock) add(d time.Duration)  { c.nanos.Add(int64(d)) }
func (c *testClock) set(at time.Time)     { c.nanos.Store(at.UnixNano()) }
func b64[T ~string | ~[]byte](v T) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) }
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Keys are made once: RSA takes a while.
var (
	edKey   = sync.OnceValue(func() ed25519.PrivateKey { _, k, err := ed25519.GenerateKey(rand.Reader); return must(k, err) })
	ecKey   = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	rsaKey  = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	nextRSA = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	evilRSA = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	weakRSA = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 1024)) })
	evilEd  = sync.OnceValue(func() ed25519.PrivateKey { _, k, err := ed25519.GenerateKey(rand.Reader); return must(k, err) })
	aSecret = []byte("0123456789abcdef0123456789abcdef")
)

// sign makes a compact JWS from any header and claims, with no library that could object.
func sign(header, claims string, k any) string {
	input := b64(header) + "." + b64(claims)
	return input + "." + b64(signature(input, rawAlg(header), k))
}

func rawAlg(header string) string {
	text, _ := rawjson.Text(rawjson.Get([]byte(header), "alg")).Unquote()
	return text
}

func signature(input, alg string, k any) []byte {
	digest := sha256.Sum256([]byte(input))
	switch k := k.(type) {
	case nil:
		return nil
	case ed25519.PrivateKey:
		return ed25519.Sign(k, []byte(input))
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, digest[:])
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case *rsa.PrivateKey:
		if alg == PS256 {
			return must(rsa.SignPSS(rand.Reader, k, crypto.SHA256, digest[:], nil))
		}
		if alg == RS512 {
			long := sha512.Sum512([]byte(input))
			return must(rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA512, long[:]))
		}
		return must(rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, digest[:]))
	case []byte:
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(input))
		return mac.Sum(nil)
	default:
		panic(fmt.Sprintf("no signature with a %T", k))
	}
}

// with returns object with a member of this JSON value, in the place of the one that it had.
func with(object, name, value string) string {
	object = without(object, name)
	comma := ","
	if object == "{}" {
		comma = ""
	}
	return strings.TrimSuffix(object, "}") + comma + `"` + name + `":` + value + "}"
}

// without returns object without a member.
func without(object, name string) string {
	var members []string
	for n, v := range rawjson.Members([]byte(object)) {
		if !n.Is(name) {
			members = append(members, string(n)+":"+string(v))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

const sessionHeader = `{"alg":"EdDSA","kid":"k1","typ":"at+jwt"}`

func sessionClaimsAt(now time.Time) string {
	return fmt.Sprintf(`{"iss":"app","aud":"tailrace","sub":"ann","tid":"acme","sid":"s1","scope":"read chat","iat":%d,"exp":%d,"jti":"t1"}`, now.Unix(), now.Unix()+900)
}

const oidcHeader = `{"alg":"RS256","kid":"r1","typ":"JWT"}`

func oidcClaimsAt(now time.Time, issuer string) string {
	return fmt.Sprintf(`{"iss":%q,"aud":["tailrace","other"],"sub":"ann","org":"acme","scope":"openid read answer","iat":%d,"exp":%d}`, issuer, now.Unix(), now.Unix()+900)
}

// provider is an identity provider: a server with discovery and keys.
type provider struct {
	*httptest.Server

	keyRequests, discoveries atomic.Int64

	mu     sync.Mutex // guards keys
	keys   []jose.JSONWebKey
	answer atomic.Pointer[http.HandlerFunc] // instead of both pages
}

func newProvider(tb testing.TB) *provider {
	tb.Helper()
	p := &provider{keys: []jose.JSONWebKey{{Key: rsaKey().Public(), KeyID: "r1", Use: "sig"}}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.discoveries.Add(1)
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":"x"}`, p.URL, p.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.keyRequests.Add(1)
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.keys})
	})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := p.answer.Load(); h != nil {
			(*h)(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	tb.Cleanup(p.Close)
	return p
}

func (p *provider) setKeys(keys ...jose.JSONWebKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keys
}

// setAway makes every request fail, or none.
func (p *provider) setAway(away bool) {
	if !away {
		p.answer.Store(nil)
		return
	}
	p.setAnswer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}

func (p *provider) setAnswer(h http.HandlerFunc) { p.answer.Store(&h) }

func (p *provider) config(clock *testClock) OIDCConfig {
	return OIDCConfig{
		Issuer: p.URL, Audiences: []string{"tailrace"}, Client: p.Client(), Now: clock.now,
		Mapping: Mapping{TenantClaim: "org", Sessions: auth.Sessions{Own: true}},
	}
}

func (p *provider) oidc(tb testing.TB, clock *testClock, change ...func(*OIDCConfig)) *OIDC {
	tb.Helper()
	cfg := p.config(clock)
	for _, c := range change {
		c(&cfg)
	}
	o, err := NewOIDC(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(o.Close)
	return o
}

func newSessionTokens(tb testing.TB, clock *testClock, change ...func(*SessionTokensConfig)) *SessionTokens {
	tb.Helper()
	cfg := SessionTokensConfig{
		Issuer: "app", Audience: "tailrace", Now: clock.now,
		Keys: []PublicKey{{"k1", edKey().Public()}, {"k2", ecKey().Public()}},
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := NewSessionTokens(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

func newChain(tb testing.TB, clock *testClock, cfg ChainConfig) *Chain {
	tb.Helper()
	cfg.Now = clock.now
	c, err := NewChain(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func request(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/sessions", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// waitForLoad waits for the load that runs, if one does.
func waitForLoad(k *keyring) {
	k.mu.Lock()
	loading := k.loading
	k.mu.Unlock()
	if loading != nil {
		<-loading
	}
}

// wantReason fails unless err is an InvalidError with this reason and member, "" for any.
func wantReason(t *testing.T, err error, reason Reason, member string) {
	t.Helper()
	bad, ok := errors.AsType[*InvalidError](err)
	if !ok || !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("got %v, want reason %s", err, reason)
		return
	}
	if bad.Reason != reason || member != "" && bad.Member != member {
		t.Errorf("got %s %s, want %s %s", bad.Reason, bad.Member, reason, member)
	}
}

func members(object string) map[string][]byte {
	out := map[string][]byte{}
	for n, v := range rawjson.Members([]byte(object)) {
		out[string(n.Bytes())] = v
	}
	return out
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
