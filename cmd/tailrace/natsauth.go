package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/subjects"
)

// natsAuthFlags are the flags of `tailrace nats-auth print`.
type natsAuthFlags struct {
	role, tenant, format, account, keys, publicKey, domain, inboxPrefix, out string

	agentTypes stringList
}

func (f *natsAuthFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.role, "role", "", "setup, edge, projector, worker, analytics, operator, or all; if empty, all with tenant and account")
	flags.StringVar(&f.tenant, "tenant", "", "tenant whose account it is; the names of the users end with it, and the entry of the file of accounts is printed. Only an account isolates a tenant")
	flags.Func("agent-type", "comma-separated agent types whose commands a worker takes; if empty, all", func(s string) error {
		return f.agentTypes.UnmarshalText([]byte(s))
	})
	flags.StringVar(&f.format, "format", "conf", "conf: a part of a configuration file of nats-server; nsc: commands of nsc")
	flags.StringVar(&f.account, "account", "", "account of the users; if empty, the default account of the server, or of nsc")
	flags.StringVar(&f.keys, "keys", "", "directory of the seeds of the users' nkeys, <user>.nk; what is missing is created")
	flags.StringVar(&f.out, "out", "", "file that is written, or replaced, when all is right; if empty, standard output")
	flags.StringVar(&f.domain, "domain", "", "JetStream domain that clients name in their requests, as in their NATS context")
	flags.StringVar(&f.inboxPrefix, "inbox-prefix", "", "first tokens of the inboxes of the users, as in their NATS context; if empty, _INBOX_ and the role")
	flags.StringVar(&f.publicKey, "public-key", "", "public nkey of the user, if its seed is elsewhere; with one role")
}

// runNATSAuth prints the permissions of roles. It connects to no server.
func runNATSAuth(_ context.Context, t terminal, args []string) error {
	var f natsAuthFlags
	cfg, rest, err := arguments(t, "nats-auth", args, f.register)
	if err != nil {
		return err
	}
	if !slices.Equal(rest, []string{"print"}) {
		return usageError{errors.New("want print")}
	}
	roles := natsauth.Roles()
	if f.role != "all" && (f.role != "" || f.tenant == "") {
		role, err := natsauth.ParseRole(f.role)
		if err != nil {
			return usageError{fmt.Errorf("%w, or all", err)}
		}
		roles = []natsauth.Role{role}
	}
	if err := f.check(len(roles)); err != nil {
		return usageError{err}
	}
	if f.keys != "" {
		if err := os.MkdirAll(f.keys, 0o700); err != nil {
			return err
		}
	}
	users := make([]natsauth.User, 0, len(roles))
	var header strings.Builder
	for _, role := range roles {
		user, settings, err := f.user(cfg.natsAuth(), role)
		if err != nil {
			return err
		}
		users = append(users, user)
		fmt.Fprintf(&header, "# %s: %s\n", user.Name, settings)
	}
	if f.tenant != "" && len(users) > 1 {
		header.WriteString(f.accountEntry())
	}
	var text string
	if f.format == "conf" {
		text, err = natsauth.Conf(f.account, users)
	} else {
		text, err = nscCommands(f.account, users)
	}
	if err != nil {
		return err
	}
	if f.out == "" {
		_, err = fmt.Fprint(t.out, header.String()+text)
		return err
	}
	part := f.out + ".part"
	if err := os.WriteFile(part, []byte(header.String()+text), 0o600); err != nil { //nolint:gosec // the operator names the file
		return err
	}
	return os.Rename(part, f.out)
}

// nscCommands returns the commands of nsc, with the setting that a server needs to accept the credentials.
func nscCommands(account string, users []natsauth.User) (string, error) {
	line, err := natsauth.ControlLine(users)
	if err != nil {
		return "", err
	}
	limit := ""
	if line > 4<<10 { // the default
		limit = fmt.Sprintf("# in the configuration of nats-server: max_control_line: %d\n", line)
	}
	return limit + natsauth.NSC(account, users), nil
}

func (f *natsAuthFlags) check(roles int) error {
	switch {
	case f.format != "conf" && f.format != "nsc":
		return fmt.Errorf("format is %q, want conf or nsc", f.format)
	case f.keys != "" && f.publicKey != "":
		return errors.New("keys and public-key are both set, want one")
	case f.publicKey != "" && roles > 1:
		return errors.New("public-key: want one role")
	case f.publicKey != "" && !nkeys.IsValidPublicUserKey(f.publicKey):
		return fmt.Errorf("public-key is %q, want an nkey that begins with U", f.publicKey)
	case f.format == "conf" && f.keys == "" && f.publicKey == "":
		return errors.New("want --keys DIR or --public-key KEY: the server knows a user by the public key")
	case f.tenant != "" && f.account == "":
		return errors.New("tenant: want --account too: users of one account can write everything in it")
	case len(f.agentTypes) > 0 && roles > 1:
		return errors.New("agent-type: want one role")
	case f.tenant != "":
		return subjects.CheckToken("tenant", f.tenant)
	}
	return nil
}

// accountEntry returns a comment with the entry of the tenant in the file of accounts.
func (f *natsAuthFlags) accountEntry() string {
	user := natsauth.UserName(natsauth.Edge, f.tenant)
	member, file := "creds", user+".creds"
	if f.keys != "" {
		member, file = "nkey", filepath.Join(f.keys, user+".nk")
	}
	return fmt.Sprintf("# in the file TAILRACE_ACCOUNTS of the edge: {%q: {%q: %q}}\n", f.tenant, member, file)
}

// user returns the user of a role, and the settings with which its process connects.
func (f *natsAuthFlags) user(cfg natsauth.Config, role natsauth.Role) (user natsauth.User, settings string, err error) {
	cfg.AgentTypes, cfg.Domain, cfg.InboxPrefix = f.agentTypes, f.domain, f.inboxPrefix
	user = natsauth.User{Name: natsauth.UserName(role, f.tenant), PublicKey: f.publicKey}
	if user.Permissions, err = natsauth.Of(role, cfg); err != nil {
		return user, "", usageError{err}
	}
	settings = "TAILRACE_NATS_NKEY=<seed file>"
	switch {
	case f.keys != "":
		file := filepath.Join(f.keys, user.Name+".nk")
		if user.PublicKey, err = publicKey(file); err != nil {
			return user, "", err
		}
		settings = "TAILRACE_NATS_NKEY=" + file
	case f.publicKey == "": // nsc creates the key
		settings = "TAILRACE_NATS_CREDS=" + user.Name + ".creds"
	}
	if cfg.Domain != "" {
		settings += ", NATS context with jetstream_domain " + cfg.Domain
	}
	if cfg.InboxPrefix != "" {
		settings += ", NATS context with inbox_prefix " + cfg.InboxPrefix
	}
	return user, settings, nil
}

// publicKey returns the public key of the seed in a file. It creates a missing file, which only its owner can read.
func publicKey(file string) (string, error) {
	seed, err := os.ReadFile(file) //nolint:gosec // a flag names the directory
	if errors.Is(err, fs.ErrNotExist) {
		seed, err = createSeed(file)
	}
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedNKey(bytes.TrimSpace(seed))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("%s: not a seed of a user", file)
	}
	return public, nil
}

func createSeed(file string) ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	seed = append(slices.Clone(seed), '\n') // Wipe overwrites the other one
	return seed, writeNew(file, seed)       // never over a seed that another process has just created
}
