package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigMaps of the settings that can change at runtime, with their keys.
const (
	FunctionConfig    = "rouse-config"
	FunctionConfigKey = "function-config.yaml"
	LogConfig         = "rouse-log-config"
	LogConfigKey      = "log-config.yaml"
)

// SetChartValues upgrades the release to this checkout's chart with some values changed, as NAME=VALUE, and waits until it is rolled
// out. The test's package lies two folders below the checkout.
func (c *Cluster) SetChartValues(ctx context.Context, values ...string) error {
	args := []string{"upgrade", "rouse", "../../charts/rouse", "--namespace", System, "--reuse-values", "--wait", "--timeout", "3m"}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	if out, err := exec.CommandContext(ctx, "helm", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("upgrade the release: %w: %s", err, out)
	}
	return nil
}

// ChangeSettings changes a file of settings, and returns its previous content and the time of the write.
func (c *Cluster) ChangeSettings(ctx context.Context, name, key string, change func(string) string) (before string, at time.Time, err error) {
	object := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: System, Name: name}, object); err != nil {
		return "", at, fmt.Errorf("read settings: %w", err)
	}
	before = object.Data[key]
	object.Data[key] = change(before)
	if err := c.Update(ctx, object); err != nil {
		return before, at, fmt.Errorf("change settings: %w", err)
	}
	return before, time.Now(), nil
}

// AwaitSettings waits until each pod of the components has logged that it uses changed settings of a ConfigMap, and
// returns the time of the last line.
func (c *Cluster) AwaitSettings(ctx context.Context, configMap string, since time.Time, components ...string) (last time.Time, err error) {
	for _, component := range components {
		pods, err := c.PodsOf(ctx, component)
		if err != nil {
			return last, err
		}
		for i := range pods {
			const before = 100 * time.Millisecond // a watch may be faster than the response to the write
			at, err := c.AwaitFollowed(ctx, &pods[i], component, configMap, since.Add(-before))
			if err != nil {
				return last, err
			}
			if at.After(last) {
				last = at
			}
		}
	}
	return last, nil
}

// AwaitFollowed waits until a container has logged that it uses changed settings of a ConfigMap, and returns the time
// of the line.
func (c *Cluster) AwaitFollowed(
	ctx context.Context, pod *corev1.Pod, container, configMap string, since time.Time,
) (at time.Time, err error) {
	err = Await(ctx, time.Minute, pod.Name+" to follow "+configMap, func(ctx context.Context) (bool, error) {
		text, err := c.Logs(ctx, pod.Namespace, pod.Name, container, 0)
		if err != nil {
			return false, err
		}
		var ok bool
		at, ok = followed(text, configMap, since)
		return ok, nil
	})
	return at, err
}

// followed finds this line in a log.
func followed(text, configMap string, since time.Time) (at time.Time, ok bool) {
	for line := range strings.Lines(text) {
		said, ok := readLine(line)
		if !ok || said.Message != "the settings of the ConfigMap are in force" {
			continue
		}
		if strings.HasSuffix(said.ConfigMap, "/"+configMap) && said.Time.After(since) {
			return said.Time, true
		}
	}
	return time.Time{}, false
}

// logLine contains the fields of a log line that are read.
type logLine struct {
	Time      time.Time `json:"time"`
	Message   string    `json:"msg"`
	ConfigMap string    `json:"configMap"`
}

// readLine parses a line of either format.
func readLine(line string) (read logLine, ok bool) {
	if json.Unmarshal([]byte(line), &read) == nil {
		return read, true
	}
	found := consoleLine.FindStringSubmatch(line)
	if found == nil {
		return read, false
	}
	at, err := time.Parse(time.RFC3339Nano, found[1])
	return logLine{Time: at, Message: found[2], ConfigMap: found[3]}, err == nil
}

// consoleLine matches a line in the console format.
var consoleLine = regexp.MustCompile(`^time=(\S+) .*msg="([^"]*)".* configMap=(\S+)`)

// AwaitSettingsEvent waits for an Event with the text on a ConfigMap of settings.
func (c *Cluster) AwaitSettingsEvent(ctx context.Context, configMap, reason, text string) error {
	return Await(ctx, time.Minute, "an Event "+reason+" on "+configMap, func(ctx context.Context) (bool, error) {
		list := &eventsv1.EventList{}
		if err := c.List(ctx, list, client.InNamespace(System)); err != nil {
			return false, fmt.Errorf("list events: %w", err)
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Name == configMap && e.Reason == reason && strings.Contains(e.Note, text) {
				return true, nil
			}
		}
		return false, nil
	})
}

// Jobs records the build Jobs of Functions.
type Jobs struct {
	mu      sync.Mutex
	made    map[string]map[types.UID]bool // by the Function's namespace/name
	active  map[types.UID]bool
	highest int
}

// RecordJobs watches the build Jobs of all namespaces until ctx ends.
func (c *Cluster) RecordJobs(ctx context.Context) (*Jobs, error) {
	jobs := &Jobs{made: map[string]map[types.UID]bool{}, active: map[types.UID]bool{}}
	return jobs, c.watchEach(ctx, &batchv1.JobList{}, func(kind watch.EventType, object runtime.Object) {
		if job, ok := object.(*batchv1.Job); ok {
			jobs.see(job, kind == watch.Deleted || ended(job))
		}
	}, client.HasLabels{FunctionLabel})
}

func (j *Jobs) see(job *batchv1.Job, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	function := job.Namespace + "/" + job.Labels[FunctionLabel]
	if j.made[function] == nil {
		j.made[function] = map[types.UID]bool{}
	}
	j.made[function][job.UID] = true
	if over {
		delete(j.active, job.UID)
	} else {
		j.active[job.UID] = true
	}
	j.highest = max(j.highest, len(j.active))
}

func ended(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		over := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if over && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return !job.DeletionTimestamp.IsZero()
}

// Of returns the number of Jobs for a Function.
func (j *Jobs) Of(namespace, function string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.made[namespace+"/"+function])
}

// Highest returns the maximum number of concurrent Jobs.
func (j *Jobs) Highest() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.highest
}
