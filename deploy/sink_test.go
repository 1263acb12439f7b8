package deploy

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// sinkContainer is the name of the containers of tailrace-sink, a program with settings of its own.
const sinkContainer = "sink"

// sinkMemory is what a sink with a lake uses besides TAILRACE_SINK_MEMORY (sink/cmd/tailrace-sink).
const sinkMemory = (128 + 64) << 20

// checkSink checks that tailrace-sink has each setting, and that its memory fits. It sets the limit of the collector itself, from TAILRACE_SINK_MEMORY.
func checkSink(t *testing.T, name string, c *corev1.Container) {
	t.Helper()
	known := sinkSettings(t)
	for _, e := range c.Env {
		if strings.HasPrefix(e.Name, "TAILRACE_") && !known[e.Name] {
			t.Errorf("%s: setting %s does not exist", name, e.Name)
		}
	}
	limit := c.Resources.Limits[corev1.ResourceMemory]
	memory, err := strconv.ParseInt(value(c, "TAILRACE_SINK_MEMORY"), 10, 64)
	if most := *resource.NewQuantity((memory+sinkMemory)*10/9, resource.BinarySI); err != nil || limit.Cmp(most) < 0 || value(c, "GOMEMLIMIT") != "" {
		t.Errorf("%s: the limit is %s, want %s (%v) and no GOMEMLIMIT", name, limit.String(), most.String(), err)
	}
	if c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: resources %+v", name, c.Resources)
	}
}

// sinkSettings returns the environment variables that tailrace-sink reads, from its source.
func sinkSettings(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../sink/cmd/tailrace-sink/config.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, found := range regexp.MustCompile("`envconfig:\"(TAILRACE_[A-Z0-9_]+)\"").FindAllStringSubmatch(string(text), -1) {
		known[found[1]] = true
	}
	if len(known) < 15 {
		t.Fatalf("%d settings in the source of tailrace-sink", len(known))
	}
	return known
}

// composeFile is a file of Docker Compose, as far as it is checked here. Other members are errors.
type composeFile struct {
	Name     string                       `json:"name"`
	Services map[string]composeService    `json:"services"`
	Volumes  map[string]any               `json:"volumes"`
	Configs  map[string]map[string]string `json:"configs"`
}

type composeService struct {
	Image       string            `json:"image"`
	Build       *composeBuild     `json:"build"`
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment"`
	Ports       []string          `json:"ports"`
	Volumes     []string          `json:"volumes"`
	Configs     []composeConfig   `json:"configs"`
	DependsOn   []string          `json:"depends_on"`
	Restart     string            `json:"restart"`
}

type composeBuild struct {
	Context string `json:"context"`
	Target  string `json:"target"`
}

type composeConfig struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// TestCompose checks that commands, flags, variables, hosts, stages of the Dockerfile and mounted files of a compose file exist.
func TestCompose(t *testing.T) {
	for _, path := range []string{"../compose.yaml", "compose/analytics.yaml", "compose/cluster.yaml"} {
		t.Run(filepath.Base(path), func(t *testing.T) { checkCompose(t, path) })
	}
}

func checkCompose(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	ofTailrace, ofSink := settings(t), sinkSettings(t)
	for name, s := range file.Services {
		known := ofTailrace
		if name == sinkContainer {
			known = ofSink
		}
		s.check(t, name, filepath.Dir(path), file)
		if s.Build != nil {
			checkBuild(t, name, filepath.Dir(path), *s.Build)
			checkArguments(t, name, s.Command, known)
		}
		for variable, value := range s.Environment {
			if strings.HasPrefix(variable, "TAILRACE_") && !known[variable] {
				t.Errorf("%s: setting %s does not exist", name, variable)
			}
			for one := range strings.SplitSeq(value, ",") {
				if at, err := url.Parse(one); err == nil && at.Host != "" && file.Services[at.Hostname()].Image == "" {
					t.Errorf("%s: %s has the host %s, which is not a service", name, variable, at.Host)
				}
			}
		}
	}
	for name, config := range file.Configs {
		var content map[string]any
		if err := yaml.UnmarshalStrict([]byte(config["content"]), &content); err != nil || len(content) == 0 {
			t.Errorf("config %s: %v, %v", name, content, err)
		}
	}
}

// check checks what a service names of its file and of the host.
func (s composeService) check(t *testing.T, name, dir string, file composeFile) {
	t.Helper()
	if (s.Image == "") == (s.Build == nil) {
		t.Errorf("%s: want an image or a build", name)
	}
	for _, port := range s.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("%s: port %s is open for other hosts", name, port)
		}
	}
	for _, other := range s.DependsOn {
		if _, exists := file.Services[other]; !exists {
			t.Errorf("%s: service %s does not exist", name, other)
		}
	}
	for _, config := range s.Configs {
		if _, exists := file.Configs[config.Source]; !exists || !filepath.IsAbs(config.Target) {
			t.Errorf("%s: config %+v does not exist", name, config)
		}
	}
	for _, volume := range s.Volumes {
		source, _, _ := strings.Cut(volume, ":")
		if !strings.HasPrefix(source, ".") {
			if _, exists := file.Volumes[source]; !exists {
				t.Errorf("%s: volume %s does not exist", name, source)
			}
		} else if _, err := os.Stat(filepath.Join(dir, source)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func checkBuild(t *testing.T, name, dir string, build composeBuild) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, build.Context, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if stage := regexp.MustCompile(`(?m)^FROM \S+ AS ` + regexp.QuoteMeta(build.Target) + `$`); !stage.Match(text) {
		t.Errorf("%s: the Dockerfile has no stage %q", name, build.Target)
	}
}

// checkArguments checks a command of tailrace or tailrace-sink and its flags.
func checkArguments(t *testing.T, name string, arguments []string, known map[string]bool) {
	t.Helper()
	for _, argument := range arguments {
		flag, isFlag := strings.CutPrefix(argument, "--")
		if !isFlag {
			if !slices.Contains([]string{"up", "setup", "edge", "projector", "worker"}, argument) || name == sinkContainer {
				t.Errorf("%s: command %s does not exist", name, argument)
			}
			continue
		}
		flag, _, _ = strings.Cut(flag, "=")
		variable := strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		if !known["TAILRACE_"+variable] && !known["TAILRACE_SINK_"+variable] {
			t.Errorf("%s: flag --%s does not exist", name, flag)
		}
	}
}
