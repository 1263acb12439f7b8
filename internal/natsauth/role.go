package natsauth

import (
	"errors"
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

// HasTenant reports whether a role may have a tenant. The others work for all tenants.
func HasTenant(role Role) bool { return role == Edge || role == Worker || role == Analytics }

// InboxPrefix returns the prefix of the inboxes of a role, and of a tenant if it is not empty. With the common default _INBOX, each client that may
// subscribe to its own responses could read those of all others.
func InboxPrefix(role Role, tenant string) string {
	prefix := "_INBOX_" + string(role)
	if tenant != "" {
		prefix += "_" + tenant
	}
	return prefix
}

// Config describes the deployment. The zero Config is one with the default names and all tenants.
type Config struct {
	// Layout names the streams, buckets and subjects.
	Layout subjects.Layout

	// Tenant, if not empty, is the only tenant whose sessions the user may write. It is for edges, workers and analytics; the other roles work for all
	// tenants.
	Tenant string

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

// errTenant reports a role that works for all tenants.
var errTenant = errors.New("works for all tenants: want no tenant")

func (c Config) validate(role Role) error {
	if _, err := ParseRole(string(role)); err != nil {
		return err
	}
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	if c.Tenant != "" {
		if err := subjects.CheckToken("tenant", c.Tenant); err != nil {
			return err
		}
		if !HasTenant(role) {
			return fmt.Errorf("role %s: %w", role, errTenant)
		}
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
	return CheckInboxPrefix(c.InboxPrefix)
}

// CheckInboxPrefix returns an error for a prefix of inboxes that is not one or more tokens. An empty one is valid and means the default.
func CheckInboxPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n") {
			return fmt.Errorf("inbox prefix is %q, want tokens without wildcards, separated by dots", prefix)
		}
	}
	return nil
}

func (c Config) inboxPrefix(role Role) string {
	if c.InboxPrefix != "" {
		return c.InboxPrefix
	}
	return InboxPrefix(role, c.Tenant)
}
