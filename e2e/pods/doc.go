// Package pods runs the containers of rendered Kubernetes manifests as local processes, as a kubelet and the controllers of deployments, jobs, services and pod
// disruption budgets would.
//
//   - A container gets the arguments and the environment of its manifest and nothing else. Secrets and config maps are files in a directory.
//   - Probes, minReadySeconds, preStop hooks, SIGTERM, grace periods and restarts with a backoff are those of the kubelet.
//   - A deployment is updated pod by pod with its maxSurge and maxUnavailable, and scaled; an eviction respects the pod disruption budget.
//   - Each pod has an address of the loopback range, and a service connects to those that are ready and do not terminate.
//
// What differs from a cluster: a process sees the files of the machine, so the paths of mounts are replaced by those of the directories, and a listener on all
// addresses by one on the address of the pod; names of services in addresses are replaced as Config.Hosts says; resources, security contexts, network policies and
// the spread over zones have no effect. A field of a manifest that this package does not know is an error, so that nothing is left out silently.
package pods
