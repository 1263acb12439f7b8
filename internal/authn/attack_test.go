package authn

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// attack is a token that must be refused, with the reason.
type attack struct {
	name   string
	token  string
	reason Reason
	member string // "" for any
}

// sessionAttacks is signed by the right key wherever the name does not say otherwise, so that each token has one fault.
func sessionAttacks(evilURL string) (list []attack) {
	good := sessionClaimsAt(start)
	add := func(name string, token string, reason Reason, member string) {
		list = append(list, attack{"session token: " + name, token, reason, member})
	}
	header := func(name, member, value string, reason Reason, bad string) {
		add(name, sign(with(sessionHeader, member, value), good, edKey()), reason, bad)
	}
	claim := func(name, member, value string, reason Reason, bad string) {
		add(name, sign(sessionHeader, with(good, member, value), edKey()), reason, bad)
	}

	// The algorithm.
	for _, none := range []string{"none", "None", "NONE", "nOnE", "none ", " none", "no\\u006ee", "", "null", "NoNe"} {
		add("alg "+none+" without a signature", sign(with(sessionHeader, "alg", `"`+none+`"`), good, nil), ReasonAlgorithm, "")
		add("alg "+none+" with a signature", sign(with(sessionHeader, "alg", `"`+none+`"`), good, edKey()), ReasonAlgorithm, "")
	}
	for _, value := range []string{"null", "0", "true", `["EdDSA"]`, `{"alg":"EdDSA"}`} {
		header("alg is "+value, "alg", value, ReasonAlgorithm, "")
	}
	add("alg missing", sign(without(sessionHeader, "alg"), good, edKey()), ReasonAlgorithm, "")
	header("alg in another case", "alg", `"eddsa"`, ReasonAlgorithm, "")
	header("alg with a line break", "alg", `"EdDSA\n"`, ReasonAlgorithm, "")
	header("alg RS256, which session tokens do not have", "alg", `"RS256"`, ReasonAlgorithm, "")
	header("alg of the other key", "alg", `"ES256"`, ReasonKey, "")
	public := edKey().Public().(ed25519.PublicKey)
	der := must(x509.MarshalPKIXPublicKey(public))
	for name, secret := range map[string][]byte{
		"the public key": public, "the public key as DER": der, "the public key as PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"the public key in base64url": []byte(b64(public)), "an empty secret": {}, "the key id": []byte("k1"),
	} {
		for _, alg := range []string{"HS256", "HS384", "HS512"} {
			add(alg+" with "+name, sign(with(sessionHeader, "alg", `"`+alg+`"`), good, secret), ReasonAlgorithm, "")
		}
	}

	// The key.
	for _, kid := range []string{
		"k9", "", "K1", "k1 ", "../../../../dev/null", "/dev/null", "file:///proc/self/environ", "http://" + strings.TrimPrefix(evilURL, "http://") + "/key",
		"k1' OR '1'='1", "k1; DROP TABLE keys", "k1' UNION SELECT 'x", "k1%00", "k1\\u0000", "$(id)", "`id`", "{{7*7}}", "\\u212a1", strings.Repeat("k", 256),
	} {
		want := ReasonKey
		if kid == "" {
			continue // an empty id is a missing one: see below
		}
		header(fmt.Sprintf("kid %.32s", kid), "kid", `"`+kid+`"`, want, "")
	}
	header("kid of 257 bytes", "kid", `"`+strings.Repeat("k", 257)+`"`, ReasonHeader, "kid")
	header("kid a number", "kid", `1`, ReasonHeader, "kid")
	header("kid null", "kid", `null`, ReasonHeader, "kid")
	header("kid a list", "kid", `["k1"]`, ReasonHeader, "kid")
	header("kid of the key of another algorithm", "kid", `"k2"`, ReasonKey, "")
	add("another key of the same kind", sign(sessionHeader, good, evilEd()), ReasonSignature, "")
	jwk := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q}`, b64(evilEd().Public().(ed25519.PublicKey)))
	for member, value := range map[string]string{
		"jwk": jwk, "jku": `"` + evilURL + `/keys"`, "x5u": `"` + evilURL + `/cert"`, "x5c": `["` + base64.StdEncoding.EncodeToString(der) + `"]`,
	} {
		add(member+" of an own key", sign(with(sessionHeader, member, value), good, evilEd()), ReasonHeader, member)
		add(member+", signed by the right key", sign(with(sessionHeader, member, value), good, edKey()), ReasonHeader, member)
		add(member+" spelled with an escape", sign(with(sessionHeader, fmt.Sprintf(`\u%04x%s`, member[0], member[1:]), value), good, edKey()), ReasonHeader, member)
	}

	// The header.
	header("crit", "crit", `["exp"]`, ReasonHeader, "crit")
	header("crit of what go-jose supports", "crit", `["b64"]`, ReasonHeader, "crit")
	header("crit empty", "crit", `[]`, ReasonHeader, "crit")
	header("crit null", "crit", `null`, ReasonHeader, "crit")
	header("b64 false", "b64", `false`, ReasonHeader, "b64")
	header("nested", "cty", `"JWT"`, ReasonHeader, "cty")
	header("encrypted and signed", "enc", `"A256GCM"`, ReasonHeader, "enc")
	header("compressed", "zip", `"DEF"`, ReasonHeader, "zip")
	for _, typ := range []string{`"JWT"`, `"jwt"`, `"dpop+jwt"`, `"logout+jwt"`, `"id+jwt"`, `"at+jwt "`, `""`, `"text/at+jwt"`} {
		header("typ "+typ, "typ", typ, ReasonType, "")
	}
	header("typ a number", "typ", `1`, ReasonType, "")
	add("typ missing", sign(without(sessionHeader, "typ"), good, edKey()), ReasonType, "")

	// The form.
	right := sign(sessionHeader, good, edKey())
	parts := strings.Split(right, ".")
	join := func(h, c, s string) string { return h + "." + c + "." + s }
	add("a nested token as claims", join(parts[0], b64(right), b64("x")), ReasonMalformed, "")
	add("a signature of zeros", join(parts[0], parts[1], b64(make([]byte, 64))), ReasonSignature, "")
	add("no signature", join(parts[0], parts[1], ""), ReasonSignature, "")
	add("a signature that is too short", join(parts[0], parts[1], parts[2][:84]), ReasonSignature, "")
	add("a signature that is too long", join(parts[0], parts[1], b64(make([]byte, 65))), ReasonSignature, "")
	add("the signature of other claims", join(parts[0], b64(with(good, "sub", `"bob"`)), parts[2]), ReasonSignature, "")
	ec := with(with(sessionHeader, "alg", `"ES256"`), "kid", `"k2"`)
	for name, sig := range map[string][]byte{
		"r and s zero": make([]byte, 64), "r zero": append(make([]byte, 32), make([]byte, 32)...), "r and s of the order": order(2), "ASN.1": {0x30, 6, 2, 1, 1, 2, 1, 1},
	} {
		add("ES256 signature with "+name, join(b64(ec), parts[1], b64(sig)), ReasonSignature, "")
	}
	add("four dots", right+".x.y", ReasonEncrypted, "")
	add("three dots", right+".x", ReasonMalformed, "")
	add("one dot", parts[0]+"."+parts[1], ReasonMalformed, "")
	add("no dots", parts[0], ReasonMalformed, "")
	add("dots alone", "..", ReasonMalformed, "")
	add("an empty header", join("", parts[1], parts[2]), ReasonMalformed, "")
	add("empty claims", join(parts[0], "", parts[2]), ReasonMalformed, "")
	add("a JWE", strings.Join([]string{b64(`{"alg":"dir","enc":"A256GCM"}`), "", b64("iv"), b64("text"), b64("tag")}, "."), ReasonEncrypted, "")
	add("a JSON serialization", `{"payload":"`+parts[1]+`"}`, ReasonMalformed, "")
	add("padding", join(parts[0]+"=", parts[1], parts[2]), ReasonMalformed, "")
	add("the other base64", join(parts[0], parts[1], strings.Repeat("+/", 43)), ReasonMalformed, "")
	add("a space at the end", right+" ", ReasonMalformed, "")
	add("two tokens", right+","+right, ReasonMalformed, "")
	add("a signature with loose last bits", right[:len(right)-1]+looseBits(right[len(right)-1]), ReasonMalformed, "")
	add("claims with loose last bits", loosen(parts, pad(good)), ReasonMalformed, "")
	add("a token of 8 KiB and one byte", sign(sessionHeader, with(good, "x", `"`+strings.Repeat("x", 6300)+`"`), edKey()), ReasonTooLarge, "")
	add("a token of 1 MiB", sign(sessionHeader, with(good, "x", `"`+strings.Repeat("x", 1<<20)+`"`), edKey()), ReasonTooLarge, "")
	for name, text := range map[string]string{
		"an array": `["EdDSA"]`, "a string": `"EdDSA"`, "not JSON": `alg=EdDSA`, "trailing text": sessionHeader + "x", "two objects": sessionHeader + sessionHeader,
		"a byte order mark": "\ufeff" + sessionHeader, "not UTF-8": `{"alg":"EdDSA","x":"` + "\xff" + `"}`, "cut off": sessionHeader[:20], "a comment": `{"alg":"EdDSA"/**/}`,
		"a lone surrogate": `{"alg":"EdDSA","x":"\ud800"}`, "a NUL": "{\"alg\":\"EdDSA\"\x00}", "deep": `{"x":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}`,
		"single quotes": `{'alg':'EdDSA'}`, "a trailing comma": `{"alg":"EdDSA",}`,
	} {
		add("header: "+name, sign(text, good, edKey()), ReasonMalformed, "")
	}
	for name, text := range map[string]string{
		"an array": `[]`, "trailing text": good + "x", "not UTF-8": with(good, "x", "\"\xff\""), "a lone surrogate": with(good, "sub", `"\ud83d"`), "NaN": with(good, "exp", "NaN"),
		"many values": with(good, "x", "["+strings.Repeat("1,", 1100)+"1]"), "deep": with(good, "x", strings.Repeat("[", 40)+strings.Repeat("]", 40)),
	} {
		add("claims: "+name, sign(sessionHeader, text, edKey()), ReasonMalformed, "")
	}

	// Members that occur twice.
	twice := func(object, member string) string { return strings.TrimSuffix(object, "}") + "," + member + "}" }
	for _, member := range []string{`"alg":"none"`, `"alg":"EdDSA"`, `"kid":"k2"`, `"\u0061lg":"none"`, `"typ":"JWT"`, `"x":1,"x":2`} {
		add("header twice: "+member, sign(twice(sessionHeader, member), good, edKey()), ReasonDuplicate, "")
	}
	for _, member := range []string{`"sub":"root"`, `"exp":9999999999`, `"tid":"other"`, `"\u0073ub":"root"`, `"scope":"admin"`, `"x":{"a":1,"a":2}`, `"x":[{"a":1,"\u0061":2}]`} {
		add("claim twice: "+member, sign(sessionHeader, twice(good, member), edKey()), ReasonDuplicate, "")
	}

	// The claims.
	for _, name := range []string{"iss", "aud", "sub", "tid", "scope", "exp", "iat", "jti"} {
		reason, member := ReasonClaim, name
		switch name {
		case "iss":
			reason, member = ReasonIssuer, ""
		case "aud":
			reason, member = ReasonAudience, ""
		}
		add(name+" missing", sign(sessionHeader, without(good, name), edKey()), reason, member)
		// A name that looks alike is another claim.
		for _, alike := range []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], name + " ", name + "\\u0000", name + "\\u200b", "\\uff45" + name} {
			add(fmt.Sprintf("%s only as %q", name, alike), sign(sessionHeader, with(without(good, name), alike, string(getRaw(good, name))), edKey()), reason, member)
		}
		for _, value := range []string{"null", "{}", "[]", `""`, "false"} {
			want, bad := reason, member
			if name == "aud" && value != "[]" && value != `""` {
				want, bad = ReasonClaim, "aud"
			}
			claim(name+" is "+value, name, value, want, bad)
		}
	}
	for _, iss := range []string{`"App"`, `"app "`, `"app/"`, `"https://app"`, `"аpp"`, `["app"]`, `"app\u0000"`, `"` + evilURL + `"`} {
		claim("iss "+iss, "iss", iss, ReasonIssuer, "")
	}
	for _, aud := range []string{`"other"`, `["other"]`, `"Tailrace"`, `"tailrace/"`, `"tailrace other"`, `"*"`, `["tail","race"]`} {
		claim("aud "+aud, "aud", aud, ReasonAudience, "")
	}
	for _, aud := range []string{`["tailrace",1]`, `[["tailrace"]]`, `{"tailrace":1}`, `1`, "[" + strings.Repeat(`"x",`, 32) + `"tailrace"]`} {
		claim(fmt.Sprintf("aud %.32s", aud), "aud", aud, ReasonClaim, "aud")
	}
	for _, sub := range []string{`1`, `["ann"]`, `"ann\n"`, `"\u202eann"`, `"ann\u0000"`, `"\u200bann"`, `"` + strings.Repeat("a", 256) + `"`} {
		claim(fmt.Sprintf("sub %.32s", sub), "sub", sub, ReasonClaim, "sub")
	}
	now := start.Unix()
	for _, exp := range []string{
		fmt.Sprintf(`"%d"`, now+900), fmt.Sprintf("%d.5", now+900), fmt.Sprintf("%d.0", now+900), "1e10", "1E400", "-1", "-0", "99999999999999999999999999", "9223372036854775807", "253402300800",
		fmt.Sprintf("%d000", now+900), "true", fmt.Sprintf("[%d]", now+900),
	} {
		claim("exp "+exp, "exp", exp, ReasonClaim, "exp")
	}
	for _, exp := range []int64{now - 30, now - 31, now - 1e6, 0} {
		token := with(with(good, "exp", fmt.Sprint(exp)), "iat", fmt.Sprint(max(exp-900, 0)))
		add(fmt.Sprint("exp ", exp-now, " seconds from now"), sign(sessionHeader, token, edKey()), ReasonExpired, "")
	}
	claim("exp before iat", "exp", fmt.Sprint(now-1), ReasonClaim, "exp")
	claim("a life of more than a day", "exp", fmt.Sprint(now+86401), ReasonClaim, "exp")
	claim("iat 31 seconds in the future", "iat", fmt.Sprint(now+31), ReasonEarly, "")
	claim("nbf 31 seconds in the future", "nbf", fmt.Sprint(now+31), ReasonEarly, "")
	for _, value := range []string{fmt.Sprintf(`"%d"`, now), fmt.Sprintf("%d.5", now), "-1", "1e400", fmt.Sprint(uint64(math.MaxUint64))} {
		claim("iat "+value, "iat", value, ReasonClaim, "iat")
		claim("nbf "+value, "nbf", value, ReasonClaim, "nbf")
	}
	for _, tid := range []string{`"acme.x"`, `"*"`, `">"`, `"acme "`, `"аcme"`, `"acme\u0000"`, `"` + strings.Repeat("a", 65) + `"`, `["acme"]`, `1`} {
		claim(fmt.Sprintf("tid %.32s", tid), "tid", tid, ReasonClaim, "tid")
	}
	for _, scope := range []string{`"read sudo"`, `"read  chat"`, `" read"`, `"Read"`, `"rеad"`, `["read"]`, `"read,chat"`, `"*"`, `"session:read"`} {
		claim("scope "+scope, "scope", scope, ReasonClaim, "scope")
	}
	for _, sid := range []string{
		`""`, `[]`, `null`, `1`, `"a b"`, `"../x"`, `">"`, `"a*b"`, `"**"`, `"a *"`, `["s1","*"]`, `["s1",""]`, `["s1",2]`, `"s1 s2"`, `"sеss"`,
		"[" + strings.Repeat(`"s",`, 16) + `"s"]`, `"` + strings.Repeat("s", 65) + `"`, `"` + strings.Repeat("s", 65) + `*"`,
	} {
		claim(fmt.Sprintf("sid %.32s", sid), "sid", sid, ReasonClaim, "sid")
	}
	for _, view := range []string{`""`, `[""]`, `1`, `null`, `"a\n"`, "[" + strings.Repeat(`"v",`, 16) + `"v"]`} {
		claim(fmt.Sprintf("view %.32s", view), "view", view, ReasonClaim, "view")
	}
	for _, jti := range []string{`1`, `"a\r\nb"`, `"` + strings.Repeat("j", 129) + `"`} {
		claim(fmt.Sprintf("jti %.32s", jti), "jti", jti, ReasonClaim, "jti")
	}
	claim("bound to a key of the client", "cnf", `{"jkt":"x"}`, ReasonClaim, "cnf")
	return list
}

func getRaw(object, name string) []byte {
	for n, v := range members(object) {
		if n == name {
			return v
		}
	}
	return nil
}

// order returns the order of P-256, n times.
func order(n int) (out []byte) {
	for range n {
		out = append(out, ecKey().Params().N.Bytes()...)
	}
	return out
}

// looseBits returns another last character that decodes to the same bytes for a decoder that is not strict.
func looseBits(last byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, last)+1])
}

// pad returns claims of a length that leaves bits of the last character of base64 unused.
func pad(claims string) string {
	for len(claims)%3 == 0 {
		claims += " "
	}
	return claims
}

// loosen returns a token whose claims have another spelling of the same bytes. The signature is over that spelling.
func loosen(parts []string, claims string) string {
	text := b64(claims)
	input := parts[0] + "." + text[:len(text)-1] + looseBits(text[len(text)-1])
	return input + "." + b64(ed25519.Sign(edKey(), []byte(input)))
}

// oidcAttacks are what differs from session tokens, and the same list again where the verifier has code of its own.
func oidcAttacks(p *provider, evilURL string) (list []attack) {
	good := oidcClaimsAt(start, p.URL)
	add := func(name string, token string, reason Reason, member string) {
		list = append(list, attack{"OIDC: " + name, token, reason, member})
	}
	header := func(name, member, value string, reason Reason, bad string) {
		add(name, sign(with(oidcHeader, member, value), good, rsaKey()), reason, bad)
	}
	claim := func(name, member, value string, reason Reason, bad string) {
		add(name, sign(oidcHeader, with(good, member, value), rsaKey()), reason, bad)
	}
	der := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	for _, alg := range []string{"none", "NONE", "HS256", "HS512", "rs256", "RS256 ", "PS256", "RS512"} {
		header("alg "+alg, "alg", `"`+alg+`"`, ReasonAlgorithm, "")
	}
	for name, secret := range map[string][]byte{
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "PKCS 1": x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey),
		"PKCS 1 in PEM": pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey)}), "the modulus": rsaKey().N.Bytes(),
	} {
		add("HS256 with the public key as "+name, sign(with(oidcHeader, "alg", `"HS256"`), good, secret), ReasonAlgorithm, "")
	}
	header("alg of another kind of key", "alg", `"EdDSA"`, ReasonKey, "")
	for _, kid := range []string{
		"r9", "R1", "r1 ", "../../../../dev/null", "/dev/null", "file:///proc/self/environ", evilURL + "/key", "r1?x=" + evilURL, "r1#" + evilURL, "r1' OR '1'='1", "r1\\u0000",
	} {
		header("kid "+kid, "kid", `"`+kid+`"`, ReasonKey, "")
	}
	header("kid a list", "kid", `["r1"]`, ReasonHeader, "kid")
	add("a key of an attacker", sign(oidcHeader, good, evilRSA()), ReasonSignature, "")
	for member, value := range map[string]string{
		"jku": `"` + evilURL + `/keys"`, "x5u": `"` + evilURL + `/cert"`, "jwk": fmt.Sprintf(`{"kty":"RSA","n":%q,"e":"AQAB"}`, b64(evilRSA().N.Bytes())),
		"x5c": `["MIIB"]`, "crit": `["http://openbanking"]`, "cty": `"JWT"`, "b64": "false",
	} {
		add(member, sign(with(oidcHeader, member, value), good, evilRSA()), ReasonHeader, member)
	}
	for _, typ := range []string{`"logout+jwt"`, `"secevent+jwt"`, `"dpop+jwt"`, `"id_token"`} {
		header("typ "+typ, "typ", typ, ReasonType, "")
	}
	for _, name := range []string{"iss", "aud", "exp", "sub", "org"} {
		reason, member := ReasonClaim, name
		switch name {
		case "iss":
			reason, member = ReasonIssuer, ""
		case "aud":
			reason, member = ReasonAudience, ""
		}
		add(name+" missing", sign(oidcHeader, without(good, name), rsaKey()), reason, member)
		add(name+" in capitals", sign(oidcHeader, with(without(good, name), strings.ToUpper(name), string(getRaw(good, name))), rsaKey()), reason, member)
	}
	claim("iss with a slash", "iss", `"`+p.URL+`/"`, ReasonIssuer, "")
	claim("iss of an attacker", "iss", `"`+evilURL+`"`, ReasonIssuer, "")
	claim("aud of a web client", "aud", `"web"`, ReasonAudience, "")
	claim("expired", "exp", fmt.Sprint(start.Unix()-30), ReasonExpired, "")
	claim("exp a string", "exp", fmt.Sprintf(`"%d"`, start.Unix()+900), ReasonClaim, "exp")
	claim("exp a fraction", "exp", fmt.Sprintf(`%d.5`, start.Unix()+900), ReasonClaim, "exp")
	claim("exp huge", "exp", "1e300", ReasonClaim, "exp")
	claim("nbf", "nbf", fmt.Sprint(start.Unix()+31), ReasonEarly, "")
	claim("iat", "iat", fmt.Sprint(start.Unix()+31), ReasonEarly, "")
	claim("sub a number", "sub", "1", ReasonClaim, "sub")
	claim("sub empty", "sub", `""`, ReasonClaim, "sub")
	claim("org with a dot", "org", `"acme.x"`, ReasonClaim, "org")
	claim("org a list", "org", `["acme"]`, ReasonClaim, "org")
	claim("scope a number", "scope", "1", ReasonClaim, "scope")
	claim("jti a number", "jti", "1", ReasonClaim, "jti")
	claim("bound to a key of the client", "cnf", `{"jkt":"x"}`, ReasonClaim, "cnf")
	add("claim twice", sign(oidcHeader, strings.TrimSuffix(good, "}")+`,"sub":"root"}`, rsaKey()), ReasonDuplicate, "")
	add("a session token of the other issuer's key", sign(oidcHeader, sessionClaimsAt(start), rsaKey()), ReasonType, "")
	add("claims of the provider, signed by the application", sign(sessionHeader, good, edKey()), ReasonKey, "")
	return list
}

// TestAttacks authenticates with each bad token, through the header. No error contains a part of the token, and nothing asks a server that a token names.
func TestAttacks(t *testing.T) {
	var visits atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	t.Cleanup(evil.Close)
	p, clock := newProvider(t), newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{p.oidc(t, clock), newSessionTokens(t, clock)}})

	for _, good := range []string{sign(sessionHeader, sessionClaimsAt(start), edKey()), sign(oidcHeader, oidcClaimsAt(start, p.URL), rsaKey())} {
		if _, err := chain.Authenticate(request(good)); err != nil {
			t.Fatalf("the token that the attacks are made from: %v", err)
		}
	}
	attacks := append(sessionAttacks(evil.URL), oidcAttacks(p, evil.URL)...)
	t.Logf("%d attacks", len(attacks))
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			g, err := chain.Authenticate(request(a.token))
			if g != nil {
				t.Errorf("got a Grant: %+v", g)
			}
			wantReason(t, err, a.reason, a.member)
			for part := range strings.SplitSeq(a.token, ".") {
				if len(part) > 8 && err != nil && (strings.Contains(err.Error(), part) || strings.Contains(Challenge(err), part)) {
					t.Errorf("the error has a part of the token: %v", err)
				}
			}
		})
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("%d requests to a server that only tokens name", n)
	}
	if n := chain.cache.Len(); n != 2 {
		t.Errorf("%d tokens in the cache, want the 2 valid ones", n)
	}
	if n := p.keyRequests.Load(); n != 1 {
		t.Errorf("%d requests for keys, want 1", n)
	}
}

// TestSecretAttacks has a verifier that accepts HS256, where the public keys must not be secrets.
func TestSecretAttacks(t *testing.T) {
	clock := newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock, func(c *SessionTokensConfig) { c.Secret = aSecret })}})
	good, hs := sessionClaimsAt(start), `{"alg":"HS256","typ":"at+jwt"}`
	if _, err := chain.Authenticate(request(sign(hs, good, aSecret))); err != nil {
		t.Fatal(err)
	}
	public := edKey().Public().(ed25519.PublicKey)
	for _, a := range []attack{
		{"the public key as secret", sign(hs, good, []byte(public)), ReasonSignature, ""},
		{"the public key as secret, by its id", sign(with(hs, "kid", `"k1"`), good, []byte(public)), ReasonKey, ""},
		{"the secret under the id of a key", sign(with(hs, "kid", `"k1"`), good, aSecret), ReasonKey, ""},
		{"another secret", sign(hs, good, []byte("fedcba9876543210fedcba9876543210")), ReasonSignature, ""},
		{"an empty signature", sign(hs, good, nil), ReasonSignature, ""},
		{"HS512", sign(with(hs, "alg", `"HS512"`), good, aSecret), ReasonAlgorithm, ""},
		{"the secret as an Ed25519 key", sign(`{"alg":"EdDSA","typ":"at+jwt"}`, good, ed25519.NewKeyFromSeed(aSecret)), ReasonSignature, ""},
	} {
		_, err := chain.Authenticate(request(a.token))
		t.Run(a.name, func(t *testing.T) { wantReason(t, err, a.reason, a.member) })
	}
}

// TestClockSkew moves the clock over the borders of a token: it is valid from 30 seconds before iat and nbf until 30 seconds after exp.
func TestClockSkew(t *testing.T) {
	p := newProvider(t)
	for name, token := range map[string]func() string{
		"iat": func() string { return sign(sessionHeader, sessionClaimsAt(start), edKey()) },
		"nbf": func() string {
			return sign(sessionHeader, with(sessionClaimsAt(start), "nbf", fmt.Sprint(start.Unix())), edKey())
		},
		"iat of a provider": func() string { return sign(oidcHeader, oidcClaimsAt(start, p.URL), rsaKey()) },
		"nbf of a provider": func() string {
			return sign(oidcHeader, with(without(oidcClaimsAt(start, p.URL), "iat"), "nbf", fmt.Sprint(start.Unix())), rsaKey())
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock), p.oidc(t, clock)}})
			text := token()
			for _, c := range []struct {
				after  int64
				reason Reason // "" for valid
			}{{-31, ReasonEarly}, {-30, ""}, {0, ""}, {900, ""}, {929, ""}, {930, ReasonExpired}, {1e6, ReasonExpired}} {
				clock.set(start.Add(seconds(c.after)))
				g, err := chain.Authenticate(request(text))
				switch {
				case c.reason != "":
					wantReason(t, err, c.reason, "")
				case err != nil:
					t.Errorf("after %d s: %v", c.after, err)
				case !g.ExpiresAt.Equal(start.Add(930e9)):
					t.Errorf("expires at %s", g.ExpiresAt)
				}
			}
		})
	}
}
