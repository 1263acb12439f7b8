package natsauth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/subjects"
)

// Role is a kind of process.
type Role string

// The roles.
const (
	Setup     Role = "setup"     // tailrace setup
	Edge      Role = "edge"      // tailrace edge
	Projector Role = "projector" // tailrace projector
	Worker    Role = "worker"    // tailrace worker, publish, and programs with package workers or producers
	Analytics Role = "analytics" // tailrace firehose, tail, and programs with package consumers
	Operator  Role = "operator"  // every other command, and tailrace up
)

// Roles returns all roles.
func Roles() []Role { return []Role{Setup, Edge, Projector, Worker, Analytics, Operator} }

// ParseRole returns the role with a name. The error names the roles.
func ParseRole(name string) (Role, error) {
	if slices.Contains(Roles(), Role(name)) {
		return Role(name), nil
	}
	names := make([]string, 0, len(Roles()))
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return "", fmt.Errorf("role is %q, want one of %s", name, strings.Join(names, ", "))
}

// InboxPrefix returns the prefix of the inboxes of a role. With the common default _INBOX, each client that may subscribe to its own responses could read
// those of all others.
func InboxPrefix(role Role) string { return "_INBOX_" + string(role) }

// Config describes the deployment. The zero Config is one with the default names.
type Config struct {
	// Layout names the streams, buckets and subjects.
	Layout subjects.Layout

	// AgentTypes, if not empty, are the agent types whose commands a worker takes.
	AgentTypes []string

	// Domain is the JetStream domain that clients name in their requests, if any.
	Domain string

	// AllowDelete lets an edge delete sessions.
	AllowDelete bool

	// AllowIngest lets an edge write runs over HTTP. An edge that ends runs without a worker may write records anyway; this lets it remove the chunks of a cleanup.
	AllowIngest bool

	// InboxPrefix is the prefix of the inboxes of the user. Defaults to that of InboxPrefix.
	InboxPrefix string
}

func (c Config) validate(role Role) error {
	if _, err := ParseRole(string(role)); err != nil {
		return err
	}
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	for _, agentType := range c.AgentTypes {
		if err := subjects.CheckToken("agent type", agentType); err != nil {
			return err
		}
	}
	if len(c.AgentTypes) > 0 && role != Worker {
		return fmt.Errorf("role %s: takes no commands: want no agent types", role)
	}
	if c.Domain != "" {
		if err := subjects.CheckToken("domain", c.Domain); err != nil {
			return err
		}
	}
	for token := range strings.SplitSeq(c.InboxPrefix, ".") {
		if c.InboxPrefix != "" && (token == "" || strings.ContainsAny(token, "*> \t\r\n")) {
			return fmt.Errorf("inbox prefix is %q, want tokens without wildcards, separated by dots", c.InboxPrefix)
		}
	}
	return nil
}
