package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// manifest is the objects that the package runs. The fields of their types are those of the Kubernetes API that the manifests of Tailrace use; a field of type
// ignored has no effect on a process.
type manifest struct {
	deployments []*deploymentObject
	jobs        []*jobObject
	services    []*serviceObject
	budgets     []*budgetObject
	configMaps  map[string]map[string]string
}

type ignored = json.RawMessage

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations ignored           `json:"annotations"`
}

type head struct {
	APIVersion ignored  `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// matches reports whether the selector selects these labels.
func (s selector) matches(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	return len(s.MatchLabels) > 0
}

type deploymentObject struct {
	head

	Spec struct {
		MinReadySeconds int      `json:"minReadySeconds"`
		Replicas        *int     `json:"replicas"` // nil is 1
		Selector        selector `json:"selector"`
		Strategy        struct {
			RollingUpdate struct {
				MaxSurge       int `json:"maxSurge"`
				MaxUnavailable int `json:"maxUnavailable"`
			} `json:"rollingUpdate"`
		} `json:"strategy"`
		Template podTemplate `json:"template"`
	} `json:"spec"`
}

type jobObject struct {
	head

	Spec struct {
		ActiveDeadlineSeconds   int         `json:"activeDeadlineSeconds"`
		BackoffLimit            int         `json:"backoffLimit"`
		TTLSecondsAfterFinished ignored     `json:"ttlSecondsAfterFinished"`
		Template                podTemplate `json:"template"`
	} `json:"spec"`
}

type serviceObject struct {
	head

	Spec struct {
		Selector map[string]string `json:"selector"`
		Ports    []struct {
			Name       string `json:"name"`
			Port       int    `json:"port"`
			TargetPort string `json:"targetPort"`
		} `json:"ports"`
	} `json:"spec"`
}

type budgetObject struct {
	head

	Spec struct {
		MaxUnavailable             int      `json:"maxUnavailable"`
		Selector                   selector `json:"selector"`
		UnhealthyPodEvictionPolicy string   `json:"unhealthyPodEvictionPolicy"`
	} `json:"spec"`
}

type podTemplate struct {
	Metadata metadata `json:"metadata"`
	Spec     podSpec  `json:"spec"`
}

type podSpec struct {
	AutomountServiceAccountToken  ignored     `json:"automountServiceAccountToken"`
	Containers                    []container `json:"containers"`
	EnableServiceLinks            *bool       `json:"enableServiceLinks"` // false: no variables of services
	RestartPolicy                 string      `json:"restartPolicy"`      // "" is Always
	SecurityContext               ignored     `json:"securityContext"`
	ServiceAccountName            ignored     `json:"serviceAccountName"`
	TerminationGracePeriodSeconds int         `json:"terminationGracePeriodSeconds"`
	TopologySpreadConstraints     ignored     `json:"topologySpreadConstraints"`
	Volumes                       []volume    `json:"volumes"`
}

type volume struct {
	Name   string `json:"name"`
	Secret *struct {
		SecretName string `json:"secretName"`
	} `json:"secret"`
	ConfigMap *struct {
		Name string `json:"name"`
	} `json:"configMap"`
}

type container struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
	Env  []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	EnvFrom []struct {
		ConfigMapRef *struct {
			Name string `json:"name"`
		} `json:"configMapRef"`
		SecretRef *struct {
			Name string `json:"name"`
		} `json:"secretRef"`
	} `json:"envFrom"`
	Image     ignored `json:"image"` // Config.Program is in its place
	Lifecycle struct {
		PreStop *struct {
			Sleep struct {
				Seconds int `json:"seconds"`
			} `json:"sleep"`
		} `json:"preStop"`
	} `json:"lifecycle"`
	LivenessProbe   *probe  `json:"livenessProbe"`
	ReadinessProbe  *probe  `json:"readinessProbe"`
	StartupProbe    *probe  `json:"startupProbe"`
	Resources       ignored `json:"resources"`
	SecurityContext ignored `json:"securityContext"`
	Ports           []struct {
		ContainerPort int    `json:"containerPort"`
		Name          string `json:"name"`
	} `json:"ports"`
	VolumeMounts []struct {
		Name      string  `json:"name"`
		MountPath string  `json:"mountPath"`
		ReadOnly  ignored `json:"readOnly"`
	} `json:"volumeMounts"`
}

// port returns the number of a named port, 0 without one.
func (c *container) port(name string) int {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

type probe struct {
	HTTPGet struct {
		Path string `json:"path"`
		Port string `json:"port"`
	} `json:"httpGet"`
	PeriodSeconds    int `json:"periodSeconds"`    // 0 is 10
	TimeoutSeconds   int `json:"timeoutSeconds"`   // 0 is 1
	FailureThreshold int `json:"failureThreshold"` // 0 is 3
}

// parse decodes a JSON array of objects.
func parse(text []byte) (*manifest, error) {
	var objects []json.RawMessage
	if err := json.Unmarshal(text, &objects); err != nil {
		return nil, err
	}
	m := &manifest{configMaps: make(map[string]map[string]string)}
	for _, object := range objects {
		var h struct {
			Kind     string   `json:"kind"`
			Metadata metadata `json:"metadata"`
		}
		err := json.Unmarshal(object, &h)
		if err == nil {
			err = m.add(h.Kind, object)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", h.Kind, h.Metadata.Name, err)
		}
	}
	return m, nil
}

func (m *manifest) add(kind string, object []byte) error {
	switch kind {
	case "Deployment":
		return decodeTo(&m.deployments, object)
	case "Job":
		return decodeTo(&m.jobs, object)
	case "Service":
		return decodeTo(&m.services, object)
	case "PodDisruptionBudget":
		return decodeTo(&m.budgets, object)
	case "ConfigMap":
		var c struct {
			head

			Data map[string]string `json:"data"`
		}
		err := strict(object, &c)
		m.configMaps[c.Metadata.Name] = c.Data
		return err
	case "Namespace", "ServiceAccount", "NetworkPolicy", "Ingress":
		return nil // no effect on a process
	default:
		return errors.New("the kind is not known")
	}
}

func decodeTo[T any](list *[]*T, object []byte) error {
	var o T
	if err := strict(object, &o); err != nil {
		return err
	}
	*list = append(*list, &o)
	return nil
}

func strict(object []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
