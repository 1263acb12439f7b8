package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/tailrace/tailrace/agents/openai"
	"github.com/tailrace/tailrace/internal/nearest"
	"github.com/tailrace/tailrace/subjects"
)

// The values of config.Feed and config.Ingest.
const (
	feedPartition = "partition"
	feedInterest  = "interest"
	ingestOn      = "on"
	ingestOff     = "off"
)

// config is every setting of every role. A field is a variable, which envconfig reads, and a flag that overrides it. Its tag names the commands that use it, with nats for all that
// connect to a server.
type config struct {
	NATSURL     redactedURL `envconfig:"TAILRACE_NATS_URL" of:"nats" desc:"URL of the NATS server; if empty, that of NATS_CONTEXT; without both, 'up' runs a built-in server and the other commands connect to it on loopback"`
	NATSCreds   string      `envconfig:"TAILRACE_NATS_CREDS" of:"nats" desc:"NATS credentials file (user JWT and seed)"`
	NATSNkey    string      `envconfig:"TAILRACE_NATS_NKEY" of:"nats" desc:"file with the seed of the NATS user's nkey"`
	NATSContext string      `envconfig:"TAILRACE_NATS_CONTEXT" of:"nats" desc:"context of the nats CLI, by name or as the path of its file: URL, credentials, TLS, JetStream domain and inbox prefix, of which NATS_URL, NATS_CREDS and NATS_NKEY replace the first two; without an inbox prefix, inboxes begin with _INBOX_ and the role: setup, edge, projector, worker (also publish), analytics (firehose, tail) or operator (up and other commands)"`
	Accounts    string      `envconfig:"TAILRACE_ACCOUNTS" of:"edge" desc:"JSON file of the tenants with a NATS account of their own, which 'edge' serves too (docs/guides/tenants.md); if empty, all tenants are in the account of the other settings"`

	DataDir  string      `envconfig:"TAILRACE_DATA_DIR" of:"up" default:"data" desc:"data directory of the built-in NATS server"`
	NATSPort int         `envconfig:"TAILRACE_NATS_PORT" of:"nats" default:"4422" desc:"loopback port of the built-in NATS server"`
	Sync     syncSetting `envconfig:"TAILRACE_SYNC" of:"up" default:"2m" desc:"fsync interval of the built-in NATS server, or always for an fsync of each write before it is acknowledged; a power cut can lose what it acknowledged since the last one"`

	Prefix     string        `envconfig:"TAILRACE_PREFIX" of:"nats nats-auth" default:"tr" desc:"first token of every subject, and prefix of stream names"`
	Partitions int           `envconfig:"TAILRACE_PARTITIONS" of:"nats nats-auth" default:"1" desc:"number of chunk streams, 1 to 64; it is fixed when setup has created them"`
	Replicas   int           `envconfig:"TAILRACE_REPLICAS" of:"nats" default:"1" desc:"replicas of every stream and bucket: 1 or 3"`
	MaxAge     time.Duration `envconfig:"TAILRACE_MAX_AGE" of:"setup up" default:"72h" desc:"retention of chunks in the log"`
	Streams    string        `envconfig:"TAILRACE_STREAMS" of:"setup up" desc:"JSON file of sizes, ages and placement of the streams and buckets that 'setup' and 'up' create (docs/guides/operate.md); existing ones are changed with 'nats stream edit'"`

	Listen         string     `envconfig:"TAILRACE_LISTEN" of:"up edge open" default:"127.0.0.1:4480" desc:"address of the HTTP edge"`
	TLSCert        string     `envconfig:"TAILRACE_TLS_CERT" of:"up edge projector worker open" desc:"PEM file of the certificate chain of the edge, reloaded when it changes; empty disables TLS"`
	TLSKey         string     `envconfig:"TAILRACE_TLS_KEY" of:"up edge projector worker" desc:"PEM file of the key of the edge's certificate"`
	TLSClientCA    string     `envconfig:"TAILRACE_TLS_CLIENT_CA" of:"up edge" desc:"PEM file of the authorities of client certificates, reloaded when it changes; AUTH maps certificates to rights; empty asks for none"`
	TrustedProxies prefixes   `envconfig:"TAILRACE_TRUSTED_PROXIES" of:"up edge" desc:"comma-separated addresses and networks of proxies whose X-Forwarded-For is used"`
	CORSOrigins    stringList `envconfig:"TAILRACE_CORS_ORIGINS" of:"up edge" desc:"comma-separated origins whose pages may read with credentials, such as https://app.example"`
	Auth           string     `envconfig:"TAILRACE_AUTH" of:"up edge token" desc:"JSON file of authenticators (docs/reference/auth.md): identity providers, session tokens, trusted proxies, client certificates; if empty, requests are not authenticated and have all rights of TENANT, on loopback or with TRUST_NETWORK"`
	TrustNetwork   bool       `envconfig:"TAILRACE_TRUST_NETWORK" of:"up edge" default:"false" desc:"allow non-loopback LISTEN addresses although AUTH is empty: every client that can reach the edge has all rights"`
	Tenant         string     `envconfig:"TAILRACE_TENANT" of:"up edge publish sessions snapshot open tail fork revoke verify rebuild token" default:"default" desc:"tenant of the commands that name a session, and of all clients if AUTH is empty; otherwise the credential of a client has its tenant"`
	AllowDelete    bool       `envconfig:"TAILRACE_ALLOW_DELETE" of:"up edge nats-auth" default:"false" desc:"allow clients with the right delete, or all if AUTH is empty, to delete sessions"`
	Views          string     `envconfig:"TAILRACE_VIEWS" of:"up edge firehose" desc:"JSON file of audience views and the default one; if empty, every client is shown everything"`
	Audit          string     `envconfig:"TAILRACE_AUDIT" of:"up edge worker" default:"on" desc:"audit log of acts and refused accesses: on (the event is stored after the act; while the store is away it waits in memory), required (the event is stored before the act, which is refused otherwise) or off"`

	Feed         string        `envconfig:"TAILRACE_FEED" of:"nats" default:"partition" desc:"what an edge follows: partition (all sessions of the partitions in which it has open streams) or interest (the sessions with open streams; 'setup' then creates the log so that it republishes, docs/guides/scale.md)"`
	Heartbeat    time.Duration `envconfig:"TAILRACE_HEARTBEAT" of:"up edge" default:"15s" desc:"send a comment on an event stream after this long without an event"`
	WriteTimeout time.Duration `envconfig:"TAILRACE_WRITE_TIMEOUT" of:"up edge projector worker" default:"10s" desc:"close a stream when the client accepts no data for this long"`
	MaxStreamAge time.Duration `envconfig:"TAILRACE_MAX_STREAM_AGE" of:"up edge" default:"4h" desc:"largest age of an open stream, which ends at a random time in the last eighth of it, so that clients spread over all edges; 0s is unlimited"`
	MaxStreams   int           `envconfig:"TAILRACE_MAX_STREAMS" of:"up edge" default:"20000" desc:"open streams per edge; -1 is unlimited"`
	Limits       string        `envconfig:"TAILRACE_LIMITS" of:"up edge worker publish" desc:"JSON file of limits (docs/guides/limits.md): requests and streams of addresses, streams and size of sessions, and of tenants requests, streams, runs and tokens per day; if empty, addresses, sessions and runs have the defaults and tenants none"`

	ChatAgents      stringList      `envconfig:"TAILRACE_CHAT_AGENT" of:"up edge" default:"demo" desc:"comma-separated agent types of chats; the first one is used unless a request has agentType; empty disables chats"`
	ChatClientTools stringList      `envconfig:"TAILRACE_CHAT_CLIENT_TOOLS" of:"up edge" desc:"comma-separated tools that run in the browser, for agents that do not declare them"`
	ChatMajor       int             `envconfig:"TAILRACE_CHAT_MAJOR" of:"up edge" default:"6" desc:"lowest major version of the AI SDK among the clients: 6 or 7"`
	ChatSubAgents   subAgentContent `envconfig:"TAILRACE_CHAT_SUBAGENTS" of:"up edge" default:"drop" desc:"sub-agent output in chats: drop, inline (message parts, in streams and in the snapshot of a page) or data (transient data parts); start, end, custom events, errors, approvals and client tool calls are always sent"`
	AgentServer     string          `envconfig:"TAILRACE_AGENT_SERVER" of:"up edge" desc:"path prefix, such as /agents, of the HTTP API through which other systems start the agents in CHAT_AGENT, with the rights chat, read, answer and stop; / for no prefix; empty disables it"`
	Ingest          string          `envconfig:"TAILRACE_INGEST" of:"up edge nats-auth" desc:"serve the paths through which agents write runs over HTTP, with the right ingest (docs/reference/ingest.md): on or off; if empty, on for 'up' and off for 'edge'; with on, print the NATS permissions of the edge again"`

	ModelURL   redactedURL   `envconfig:"TAILRACE_MODEL_URL" of:"up edge worker" desc:"base URL of an OpenAI-compatible endpoint with its version, such as http://127.0.0.1:8000/v1; with MODEL_URL or MODEL_KEY, 'up' and 'worker' run agents with a model instead of the demo, and MODEL is required"`
	ModelKey   openai.Secret `envconfig:"TAILRACE_MODEL_KEY" of:"up edge worker" desc:"API key of the endpoint (of OpenAI if MODEL_URL is empty); never logged; the value of a flag is visible to other users of the machine, that of the variable is not"`
	Model      string        `envconfig:"TAILRACE_MODEL" of:"up edge worker" desc:"name of the model; without AGENTS its agent has the type assistant, which is then the default of CHAT_AGENT"`
	Agents     string        `envconfig:"TAILRACE_AGENTS" of:"up edge worker" desc:"JSON file of agents (docs/guides/model-agents.md): models with their tools and sub-agents, whose endpoint is that of the settings, and HTTP endpoints (docs/guides/http-agent.md); with it, 'up' and 'worker' run these agents instead of the demo"`
	Demo       demoSetting   `envconfig:"TAILRACE_DEMO" of:"up worker" desc:"run the demo agent: on, off, or on with a delay factor: 1 is the pace of a model, 2 is half as fast, 0 does not wait; if empty, on for 'up'"`
	Pace       time.Duration `envconfig:"TAILRACE_PACE" of:"up edge worker publish" default:"60ms" desc:"shortest time between two records of one block of deltas, and longest delay of a delta, which is merged with those after it; 0s stores each delta as soon as the record before it is stored"`
	Format     format        `envconfig:"TAILRACE_FORMAT" of:"up edge worker publish" default:"json" desc:"body of stored chunks: json or msgpack"`
	RunTimeout time.Duration `envconfig:"TAILRACE_RUN_TIMEOUT" of:"up edge projector worker" default:"10m" desc:"an active run without a command on the queue whose tree gets no record for this long is abandoned: the next message, or a sweep of the projector, fails it with run_abandoned; 0s disables"`

	OpsListen   string        `envconfig:"TAILRACE_OPS_LISTEN" of:"up edge projector worker" default:"127.0.0.1:4481" desc:"address of probes and metrics of 'up', 'edge', 'projector' and 'worker'; empty disables"`
	OpsClientCA string        `envconfig:"TAILRACE_OPS_TLS_CLIENT_CA" of:"up edge projector worker" desc:"PEM file of authorities, reloaded when it changes: OPS_LISTEN serves TLS with TLS_CERT, and metrics and profiles are for clients with a certificate of one of them; probes are for all; empty disables TLS there"`
	Pprof       bool          `envconfig:"TAILRACE_PPROF" of:"up edge projector worker" default:"false" desc:"serve profiles of the process on OPS_LISTEN"`
	Memory      int64         `envconfig:"TAILRACE_MEMORY" of:"up edge projector" default:"1073741824" desc:"memory of buffers in bytes, a quarter each for recent frames of followed sessions, request bodies, pages that are being read (of an edge) and snapshots (of a projector); bodies and pages have at least 32 MiB each, and over the limit a request gets 503; docs/guides/operate.md has the memory of a process"`
	Drain       time.Duration `envconfig:"TAILRACE_DRAIN" of:"up edge worker" default:"10s" desc:"period at shutdown over which an edge closes open streams, and in which a worker completes the steps that run; then other workers repeat them; 0s ends them at once; an edge ends at most 5s after it, or 20s after the signal if that is later"`
	LogLevel    slog.Level    `envconfig:"TAILRACE_LOG_LEVEL" of:"nats" default:"info" desc:"debug, info, warn or error"`
	LogFormat   string        `envconfig:"TAILRACE_LOG_FORMAT" of:"nats" default:"text" desc:"text or json"`
	AccessLog   bool          `envconfig:"TAILRACE_ACCESS_LOG" of:"up edge" default:"false" desc:"log a line of the level info when a request or an event stream of the edge has ended, with its route, status, duration, size and client address"`

	streams streamsFile // of Streams
	limits  limitsFile  // of Limits
}

// load reads the environment, then the flags; flags win. extra registers the flags of one command. The remaining arguments are returned.
func load(args []string, extra func(*flag.FlagSet)) (config, []string, error) {
	var cfg config
	if err := readEnvironment(&cfg); err != nil {
		return cfg, nil, err
	}
	flags := flag.NewFlagSet("tailrace", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	if extra != nil {
		extra(flags)
	}
	set := registerSettings(flags, &cfg)
	rest, err := parseInterleaved(flags, args)
	if err == nil {
		err = set()
	}
	if err != nil {
		return cfg, nil, flagError(flags, err)
	}
	cfg = cfg.withoutDemo()
	if cfg.streams, err = cfg.readStreams(); err != nil {
		return cfg, nil, err
	}
	if cfg.limits, err = cfg.readLimits(); err != nil {
		return cfg, nil, err
	}
	return cfg, rest, cfg.validate()
}

// flagError names the flag that an unknown one is most like.
func flagError(flags *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if near := nearest.Name(name, names); near != "" {
		return fmt.Errorf("there is no flag --%s; did you mean --%s?", name, near)
	}
	return fmt.Errorf("there is no flag --%s; --help lists the flags", name)
}

// parseInterleaved accepts flags before and after plain arguments, so that `tail s1 --after 5` works. "--" ends the flags.
func parseInterleaved(flags *flag.FlagSet, args []string) ([]string, error) {
	var plain []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		rest := flags.Args()
		ended := len(rest) < len(args) && args[len(args)-len(rest)-1] == "--"
		if len(rest) == 0 || ended {
			return append(plain, rest...), nil
		}
		plain, args = append(plain, rest[0]), rest[1:]
	}
}

const minMemory = 1 << 20

func (c config) validate() error {
	switch {
	case c.Replicas != 1 && c.Replicas != 3:
		return fmt.Errorf("replicas is %d, want 1 or 3", c.Replicas)
	case c.Partitions < 1:
		return fmt.Errorf("partitions is %d, want 1 or more", c.Partitions)
	case c.Audit != auditOn && c.Audit != auditRequired && c.Audit != auditOff:
		return errors.New("audit: want on, required or off")
	case c.Ingest != "" && c.Ingest != ingestOn && c.Ingest != ingestOff:
		return errors.New("ingest: want on or off")
	case c.LogFormat != "text" && c.LogFormat != "json":
		return errors.New("log-format: want text or json")
	case c.NATSNkey != "" && c.NATSCreds != "":
		return errors.New("nats-nkey and nats-creds are both set, want one")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("tls-cert and tls-key go together")
	case c.TLSClientCA != "" && c.TLSCert == "":
		return errors.New("tls-client-ca needs tls-cert and tls-key")
	case c.OpsClientCA != "" && c.TLSCert == "":
		return errors.New("ops-tls-client-ca needs tls-cert and tls-key")
	case c.ChatMajor != 6 && c.ChatMajor != 7:
		return fmt.Errorf("chat-major is %d, want 6 or 7", c.ChatMajor)
	case c.Memory < minMemory:
		return fmt.Errorf("memory is %d, want at least %d", c.Memory, minMemory)
	case c.Feed != feedPartition && c.Feed != feedInterest:
		return errors.New("feed: want partition or interest")
	}
	for name, d := range map[string]time.Duration{"heartbeat": c.Heartbeat, "write-timeout": c.WriteTimeout} {
		if d <= 0 {
			return fmt.Errorf("%s is %s, want more than 0", name, d)
		}
	}
	if c.Pace < 0 || c.Drain < 0 || c.MaxStreamAge < 0 || c.MaxAge < 0 || c.RunTimeout < 0 {
		return errors.New("pace, drain, max-stream-age, max-age and run-timeout are durations of 0 or more")
	}
	if subjects.CheckToken("", c.Tenant) != nil { // whose text has the value
		return errors.New("tenant: want 1 to 64 of A-Z a-z 0-9 _ -")
	}
	if (subjects.Layout{Prefix: c.Prefix}).Validate() != nil {
		return errors.New("prefix: want at most 128 bytes: tokens of A-Z a-z 0-9 _ - separated by dots, the first without _ in front")
	}
	return cmp.Or(c.checkServers(), c.layout().Validate())
}

// checkIfSet checks a token that may be missing.
func checkIfSet(name, token string) error {
	if token == "" {
		return nil
	}
	return subjects.CheckToken(name, token)
}

func (c config) layout() subjects.Layout {
	return subjects.Layout{Prefix: c.Prefix, Partitions: c.Partitions, SnapshotBucket: c.streams.Snapshots.Bucket}
}
