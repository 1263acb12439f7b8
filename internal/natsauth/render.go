package natsauth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// User is a user of a NATS server.
type User struct {
	Name        string // for logs and nsc: tailrace-worker, tailrace-worker-acme
	PublicKey   string // nkey of the user, which begins with U
	Permissions jwt.Permissions
}

// UserName returns the name of the user of a role, and of a tenant if it is not empty.
func UserName(role Role, tenant string) string {
	name := "tailrace-" + string(role)
	if tenant != "" {
		name += "-" + tenant
	}
	return name
}

// Conf returns users as a part of a configuration file of nats-server. With an account, it is the block of that account, with JetStream; without one, it
// is the block of the users of the default account, in which the streams of a server without accounts are. A user without permissions has all. The error
// names a user without a valid public key.
func Conf(account string, users []User) (string, error) {
	var b strings.Builder
	indent := "  "
	if account == "" {
		b.WriteString("authorization {\n")
	} else {
		fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n", account)
		indent = "    "
	}
	fmt.Fprintf(&b, "%susers: [\n", indent)
	for _, u := range users {
		if !nkeys.IsValidPublicUserKey(u.PublicKey) {
			return "", fmt.Errorf("user %s: public key is %q, want an nkey that begins with U", u.Name, u.PublicKey)
		}
		fmt.Fprintf(&b, "%s  { # %s\n%s    nkey: %s\n", indent, u.Name, indent, u.PublicKey)
		if !u.Permissions.Pub.Empty() || !u.Permissions.Sub.Empty() {
			fmt.Fprintf(&b, "%s    permissions: {\n", indent)
			writePermission(&b, indent+"      ", "publish", u.Permissions.Pub)
			writePermission(&b, indent+"      ", "subscribe", u.Permissions.Sub)
			fmt.Fprintf(&b, "%s    }\n", indent)
		}
		fmt.Fprintf(&b, "%s  }\n", indent)
	}
	fmt.Fprintf(&b, "%s]\n", indent)
	if account != "" {
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String(), nil
}

func writePermission(b *strings.Builder, indent, name string, p jwt.Permission) {
	fmt.Fprintf(b, "%s%s: {\n", indent, name)
	writeList(b, indent+"  ", "allow", p.Allow)
	writeList(b, indent+"  ", "deny", p.Deny)
	fmt.Fprintf(b, "%s}\n", indent)
}

func writeList(b *strings.Builder, indent, name string, subjects jwt.StringList) {
	if len(subjects) == 0 {
		return
	}
	fmt.Fprintf(b, "%s%s: [\n", indent, name)
	for _, s := range subjects {
		fmt.Fprintf(b, "%s  %q\n", indent, s)
	}
	fmt.Fprintf(b, "%s]\n", indent)
}

// NSC returns the commands of nsc that create users and their credentials files in an account. A user without a public key gets a new key from nsc.
func NSC(account string, users []User) string {
	var b strings.Builder
	for _, u := range users {
		in := ""
		if account != "" {
			in = " --account " + quote(account)
		}
		fmt.Fprintf(&b, "nsc add user%s --name %s", in, quote(u.Name))
		if u.PublicKey != "" {
			fmt.Fprintf(&b, " --public-key %s", u.PublicKey)
		}
		for _, list := range []struct {
			flag     string
			subjects jwt.StringList
		}{{"--allow-pub", u.Permissions.Pub.Allow}, {"--deny-pub", u.Permissions.Pub.Deny}, {"--allow-sub", u.Permissions.Sub.Allow}} {
			for _, s := range list.subjects {
				fmt.Fprintf(&b, " \\\n  %s %s", list.flag, quote(s))
			}
		}
		b.WriteByte('\n')
		if u.PublicKey == "" {
			fmt.Fprintf(&b, "nsc generate creds%s --name %s --output-file %s\n", in, quote(u.Name), quote(u.Name+".creds"))
		}
	}
	return b.String()
}

// ControlLine returns the max_control_line, in bytes, with which a server accepts the users in operator mode: a client sends its JWT, with the permissions, in
// one line, and the default is 4 KiB.
func ControlLine(users []User) (int, error) {
	largest := 0
	for _, u := range users {
		text, err := json.Marshal(u.Permissions)
		if err != nil {
			return 0, err
		}
		largest = max(largest, base64.RawURLEncoding.EncodedLen(len(text)))
	}
	const other = 2 << 10 // the other claims, the signature and the names of the client
	return (largest + other + 1023) / 1024 * 1024, nil
}

// quote returns an argument for a POSIX shell, to which $ and * have a meaning.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
