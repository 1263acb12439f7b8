package main

import (
	"encoding"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/tailrace/tailrace/agents/openai"
	"github.com/tailrace/tailrace/subjects"
)

// envPrefix starts the name of every variable.
const envPrefix = "TAILRACE"

// config is every setting of every role. A field is the variable
// TAILRACE_<envconfig tag> and, with small letters and dashes, a flag that
// overrides it.
type config struct {
	NATSURL   string `envconfig:"NATS_URL" desc:"NATS server to use; empty: 'up' runs its own, the other commands connect to it on loopback"`
	NATSCreds string `envconfig:"NATS_CREDS" desc:"NATS credentials file (user JWT and seed)"`
	NATSCA    string `envconfig:"NATS_CA" desc:"PEM file of the authority that signed the server's certificate"`
	NATSCert  string `envconfig:"NATS_CERT" desc:"PEM client certificate for NATS"`
	NATSKey   string `envconfig:"NATS_KEY" desc:"PEM key of the client certificate"`

	DataDir  string `envconfig:"DATA_DIR" default:"data" desc:"where the built-in NATS server of 'up' keeps its files"`
	NATSPort int    `envconfig:"NATS_PORT" default:"4422" desc:"loopback port of the built-in NATS server"`

	SyncInterval time.Duration `envconfig:"SYNC_INTERVAL" default:"2m" desc:"how often the built-in NATS server syncs its files: what a power cut may cost"`
	SyncAlways   bool          `envconfig:"SYNC_ALWAYS" default:"false" desc:"sync every write of the built-in NATS server before it is acknowledged"`

	Listen       string        `envconfig:"LISTEN" default:"127.0.0.1:4480" desc:"address of the HTTP edge"`
	OpsListen    string        `envconfig:"OPS_LISTEN" default:"127.0.0.1:4481" desc:"address of probes and metrics of 'up' and 'edge', apart from the clients'; empty: none"`
	AllowDelete  bool          `envconfig:"ALLOW_DELETE" default:"false" desc:"let clients delete sessions; whoever can reach the edge can then, unless something in front asks who they are"`
	TrustNetwork bool          `envconfig:"TRUST_NETWORK" default:"false" desc:"listen beyond loopback although nobody is asked for credentials: something in front does"`
	Tenant       string        `envconfig:"TENANT" default:"default" desc:"tenant of the sessions that are written and served"`
	Heartbeat    time.Duration `envconfig:"HEARTBEAT" default:"15s" desc:"silence on an event stream after which a comment is sent"`
	WriteTimeout time.Duration `envconfig:"WRITE_TIMEOUT" default:"10s" desc:"time a client may take nothing before it is cut"`
	Drain        time.Duration `envconfig:"DRAIN" default:"10s" desc:"time over which open streams are ended at shutdown"`
	HubBytes     int64         `envconfig:"HUB_BYTES" default:"268435456" desc:"memory for recent frames of watched sessions, in bytes"`
	Views        string        `envconfig:"VIEWS" desc:"JSON file that says what audiences are shown, and by default; empty: everybody is shown everything"`

	ChatAgents      words `envconfig:"CHAT_AGENT" default:"demo" desc:"agent types that chats may be with, with commas: the first one unless a request says agentType; empty: no chats"`
	ChatClientTools words `envconfig:"CHAT_CLIENT_TOOLS" desc:"tools that run in the browser, with commas, where the agent does not say so itself"`
	ChatMajor       int   `envconfig:"CHAT_MAJOR" default:"6" desc:"major version of the AI SDK that all pages have at least: 6 or 7"`
	ChatSubAgents   said  `envconfig:"CHAT_SUBAGENTS" default:"drop" desc:"what a chat is told of the words of sub-agents: drop (none), inline or data"`

	AgentServer     bool   `envconfig:"AGENT_SERVER" default:"false" desc:"let agents elsewhere delegate to those of CHAT_AGENT; nobody is asked for credentials: whoever can reach the edge can then have them work, unless something in front asks who they are"`
	AgentServerPath string `envconfig:"AGENT_SERVER_PATH" default:"/agents" desc:"path that /start, /resume, /sse, /status, /submit-tool-result, /interrupt and /abort are below; /: none"`

	MaxStreams           int      `envconfig:"MAX_STREAMS" default:"20000" desc:"open event streams of one edge, -1 for no limit"`
	MaxStreamsPerAddress int      `envconfig:"MAX_STREAMS_PER_ADDRESS" default:"0" desc:"open event streams of one client address (IPv6: of its first 64 bits), -1 for no limit; 0 is 1000 for public addresses and no limit for private ones"`
	MaxStreamsPerSession int      `envconfig:"MAX_STREAMS_PER_SESSION" default:"10000" desc:"open event streams of one session, -1 for no limit"`
	TrustedProxies       prefixes `envconfig:"TRUSTED_PROXIES" desc:"addresses and networks of proxies whose X-Forwarded-For is believed, with commas"`

	BodyBytes int64 `envconfig:"BODY_BYTES" default:"268435456" desc:"memory for requests of chats and of agents elsewhere that are being read, in bytes, -1 for no limit; the next ones get 503"`

	MaxConnections int    `envconfig:"MAX_CONNECTIONS" default:"0" desc:"connections of the edge, the next ones wait to be accepted; 0: the limit of open files less 256"`
	TLSCert        string `envconfig:"TLS_CERT" desc:"PEM file of the edge's certificate chain; read again when it changes. Empty: no TLS"`
	TLSKey         string `envconfig:"TLS_KEY" desc:"PEM key of the edge's certificate"`
	H2C            bool   `envconfig:"H2C" default:"false" desc:"take HTTP/2 without TLS from a proxy that starts with it"`
	CORSOrigins    words  `envconfig:"CORS_ORIGINS" desc:"origins whose pages may read from the edge with credentials, with commas: https://app.example"`
	Pprof          bool   `envconfig:"PPROF" default:"false" desc:"serve profiles of the process beside its metrics"`

	Prefix     string        `envconfig:"PREFIX" default:"tr" desc:"first token of every subject, and the prefix of stream names"`
	Partitions int           `envconfig:"PARTITIONS" default:"1" desc:"number of chunk streams"`
	Replicas   int           `envconfig:"REPLICAS" default:"1" desc:"replicas of every stream and bucket, 1 or 3"`
	MaxAge     time.Duration `envconfig:"MAX_AGE" default:"72h" desc:"how long the log keeps a chunk"`

	SnapshotBucket  string        `envconfig:"SNAPSHOT_BUCKET" desc:"bucket of snapshots, to go over to one that 'rebuild --to' has filled; empty: the one named after the prefix"`
	SaveRecords     int           `envconfig:"SAVE_RECORDS" default:"200" desc:"records of a session after which its snapshot is saved at the latest"`
	SaveAfter       time.Duration `envconfig:"SAVE_AFTER" default:"500ms" desc:"time after which a folded record is saved at the latest"`
	SnapshotTTL     time.Duration `envconfig:"SNAPSHOT_TTL" default:"0s" desc:"how long the snapshot of a session is kept that nobody writes to, at least MAX_AGE; 0s: for ever"`
	ProjectorMemory int           `envconfig:"PROJECTOR_MEMORY" default:"268435456" desc:"memory for the snapshots that the projector works on, per partition, in bytes"`

	DeadLetterMaxAge   time.Duration `envconfig:"DEADLETTER_MAX_AGE" default:"0s" desc:"how long messages that could not be folded are kept; 0s: 30 days"`
	DeadLetterMaxBytes int64         `envconfig:"DEADLETTER_MAX_BYTES" default:"0" desc:"bytes of them that are kept, the oldest go first; 0: 64 MiB"`

	ArchiveAfter time.Duration `envconfig:"ARCHIVE_AFTER" default:"0s" desc:"how long after its end the projector archives a session, and whether the edge reads archives; 0s: no archives"`

	Linger       time.Duration `envconfig:"LINGER" default:"10ms" desc:"how long a delta may wait to be merged with the next; 0s turns it off"`
	Format       format        `envconfig:"FORMAT" default:"json" desc:"body of stored chunks: json or msgpack"`
	Patience     time.Duration `envconfig:"PATIENCE" default:"30s" desc:"how long a write is tried while its outcome is unknown"`
	ModelURL     string        `envconfig:"MODEL_URL" desc:"base URL of an OpenAI-compatible endpoint, with its version: http://127.0.0.1:8000/v1. With it or a key 'up' and 'worker' run agents with a model instead of the demo, and MODEL is needed"`
	ModelKey     secret        `envconfig:"MODEL_KEY" desc:"key of the endpoint (without a URL: of OpenAI's); never logged. The flag can be read by everybody on the machine, the variable cannot"`
	Model        string        `envconfig:"MODEL" desc:"name of the model"`
	ModelAPI     string        `envconfig:"MODEL_API" default:"chat" desc:"chat: POST chat/completions, responses: POST responses"`
	ModelSystem  string        `envconfig:"MODEL_SYSTEM" desc:"what the model is told before everything else"`
	ModelSilence time.Duration `envconfig:"MODEL_SILENCE" default:"5m" desc:"time that the endpoint may send nothing before it is asked again"`
	Agent        string        `envconfig:"AGENT" default:"assistant" desc:"agent type that the model is served as, and that chats are with if CHAT_AGENT says nothing else; with AGENTS it is one of those"`
	Agents       string        `envconfig:"AGENTS" desc:"JSON file of agents, their tools and sub-agents (docs/workers.md); what it leaves out is as the settings have it"`

	DemoPace float64 `envconfig:"DEMO_PACE" default:"1" desc:"pauses of the demo agent: 1 is a model's pace, 2 is half as fast, 0 does not wait"`
	Demo     bool    `envconfig:"DEMO" default:"true" desc:"run the demo agent and serve its page"`

	LogLevel  slog.Level `envconfig:"LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	LogFormat string     `envconfig:"LOG_FORMAT" default:"text" desc:"text or json"`
}

// load reads the environment, then the flags; flags win. extra registers the
// flags of one command. The remaining arguments are returned.
func load(args []string, usage io.Writer, extra func(*flag.FlagSet)) (config, []string, error) {
	var cfg config
	if err := envconfig.Process(envPrefix, &cfg); err != nil {
		return cfg, nil, fmt.Errorf("environment: %w", err)
	}
	flags := flag.NewFlagSet("tailrace", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {}
	if extra != nil {
		extra(flags)
	}
	for _, f := range fieldsOf(&cfg) {
		if flags.Lookup(f.flagName()) == nil { // a command may give a setting a meaning of its own
			flags.Var(f, f.flagName(), f.desc)
		}
	}
	rest, err := parseInterleaved(flags, args)
	if err != nil {
		return cfg, nil, err
	}
	cfg = cfg.withoutDemo()
	return cfg, rest, cfg.validate()
}

// parseInterleaved lets flags stand before and after plain arguments, so that
// `tail s1 --after 5` works. "--" ends the flags.
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

// leastBodyBytes is twice what the largest request needs: 8 MiB, the half of it
// beside that while its buffer grows, and the quarter that is kept for small ones.
const leastBodyBytes = 32 << 20

func (c config) validate() error {
	switch {
	case c.Replicas != 1 && c.Replicas != 3:
		return fmt.Errorf("replicas is %d, want 1 or 3", c.Replicas)
	case c.Partitions < 1 || c.Partitions > 1024:
		return fmt.Errorf("partitions is %d, want 1 to 1024", c.Partitions)
	case c.LogFormat != "text" && c.LogFormat != "json":
		return fmt.Errorf("log-format is %q, want text or json", c.LogFormat)
	case (c.NATSCert == "") != (c.NATSKey == ""):
		return errors.New("nats-cert and nats-key go together")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("tls-cert and tls-key go together")
	case c.ChatMajor != 6 && c.ChatMajor != 7:
		return fmt.Errorf("chat-major is %d, want 6 or 7", c.ChatMajor)
	case c.MaxConnections < 0:
		return fmt.Errorf("max-connections is %d, want 0 or more", c.MaxConnections)
	case c.BodyBytes >= 0 && c.BodyBytes < leastBodyBytes:
		return fmt.Errorf("body-bytes is %d, want at least %d, or -1", c.BodyBytes, leastBodyBytes)
	case c.SaveRecords < 1:
		return fmt.Errorf("save-records is %d, want at least 1", c.SaveRecords)
	case c.SaveAfter <= 0 || c.SaveAfter > 10*time.Second:
		return fmt.Errorf("save-after is %s, want more than 0 and at most 10s", c.SaveAfter)
	case c.ProjectorMemory < 1:
		return fmt.Errorf("projector-memory is %d, want at least 1", c.ProjectorMemory)
	case c.ModelAPI != string(openai.Chat) && c.ModelAPI != string(openai.Responses):
		return fmt.Errorf("model-api is %q, want chat or responses", c.ModelAPI)
	case c.DemoPace < 0:
		return fmt.Errorf("demo-pace is %v, want 0 or more", c.DemoPace)
	}
	if c.SnapshotTTL < 0 || c.SnapshotTTL > 0 && c.SnapshotTTL < c.MaxAge {
		return fmt.Errorf("snapshot-ttl is %s, want 0s (for ever) or at least max-age, %s: a snapshot outlives the log", c.SnapshotTTL, c.MaxAge)
	}
	for name, d := range map[string]time.Duration{"heartbeat": c.Heartbeat, "write-timeout": c.WriteTimeout, "patience": c.Patience, "model-silence": c.ModelSilence} {
		if d <= 0 {
			return fmt.Errorf("%s is %s, want more than 0", name, d)
		}
	}
	if c.Linger < 0 || c.Drain < 0 || c.MaxAge < 0 || c.SyncInterval < 0 || c.ArchiveAfter < 0 {
		return errors.New("linger, drain, max-age, sync-interval and archive-after are durations of 0 or more")
	}
	if err := subjects.CheckToken("agent", c.Agent); err != nil {
		return err
	}
	return subjects.CheckToken("tenant", c.Tenant)
}

func (c config) layout() subjects.Layout {
	return subjects.Layout{Prefix: c.Prefix, Partitions: c.Partitions, SnapshotBucket: c.SnapshotBucket}
}

func (c config) logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// field is one setting as a flag.Value.
type field struct {
	value reflect.Value
	env   string
	def   string
	desc  string
}

func fieldsOf(cfg *config) []field {
	var fields []field
	v := reflect.ValueOf(cfg).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		fields = append(fields, field{value: v.Field(i), env: tag.Get("envconfig"), def: tag.Get("default"), desc: tag.Get("desc")})
	}
	return fields
}

func (f field) flagName() string {
	return strings.ReplaceAll(strings.ToLower(f.env), "_", "-")
}

// String is the present value; flag calls it on a zero field too.
func (f field) String() string {
	if !f.value.IsValid() {
		return ""
	}
	return fmt.Sprint(f.value.Interface())
}

// IsBoolFlag lets --demo stand without a value.
func (f field) IsBoolFlag() bool { return f.value.IsValid() && f.value.Kind() == reflect.Bool }

// Set parses s as the environment would.
func (f field) Set(s string) error {
	ptr := f.value.Addr().Interface()
	if text, ok := ptr.(encoding.TextUnmarshaler); ok {
		return text.UnmarshalText([]byte(s))
	}
	switch p := ptr.(type) {
	case *string:
		*p = s
		return nil
	case *int:
		return parseInto(p, s, strconv.Atoi)
	case *int64:
		return parseInto(p, s, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case *float64:
		return parseInto(p, s, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	case *bool:
		return parseInto(p, s, strconv.ParseBool)
	case *time.Duration:
		return parseInto(p, s, time.ParseDuration)
	}
	panic("config: no parser for " + f.env)
}

func parseInto[T any](dst *T, s string, parse func(string) (T, error)) error {
	v, err := parse(s)
	if err == nil {
		*dst = v
	}
	return err
}
