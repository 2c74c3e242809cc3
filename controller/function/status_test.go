package function

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

const template = "0123456789abcdef"

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// newScope returns the scope of a Function that runs with one replica.
func newScope(changes ...func(*scope)) *scope {
	options := testOptions()
	s := &scope{
		fn: newFunction(), settings: options.settings(), code: resources.Code{Image: "runtime-nodejs22:1", Runtime: "nodejs22"},
		now: noon(), template: template, applied: true, keda: true,
		deployment: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Name: "price", Generation: 2,
				OwnerReferences: []metav1.OwnerReference{{Kind: "Function", Name: "price", UID: "uid-of-price", Controller: new(true)}},
			},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](1),
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
					Annotations: map[string]string{resources.AnnotationTemplate: template},
				}},
			},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1},
		},
	}
	available(true)(s)
	progressing(corev1.ConditionTrue, reasonRolloutDone)(s)
	for _, change := range changes {
		change(s)
	}
	return s
}

func available(yes bool) func(*scope) {
	return func(s *scope) {
		condition := appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: reasonReplicasAvailable}
		if !yes {
			condition.Status, condition.Reason = corev1.ConditionFalse, reasonReplicasNotAvailable
		}
		setDeploymentCondition(s, condition)
	}
}

// unavailableFor is a Deployment that became unavailable so long ago.
func unavailableFor(since time.Duration) func(*scope) {
	return func(s *scope) {
		setDeploymentCondition(s, appsv1.DeploymentCondition{
			Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: reasonReplicasNotAvailable,
			LastTransitionTime: metav1.NewTime(noon().Add(-since)),
		})
	}
}

func mounts(secrets ...string) []v1alpha2.SecretMount {
	all := make([]v1alpha2.SecretMount, 0, len(secrets))
	for _, name := range secrets {
		all = append(all, v1alpha2.SecretMount{SecretName: name, MountPath: "/mnt/" + name})
	}
	return all
}

func progressing(status corev1.ConditionStatus, reason string) func(*scope) {
	return func(s *scope) {
		setDeploymentCondition(s, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason})
	}
}

func setDeploymentCondition(s *scope, condition appsv1.DeploymentCondition) {
	kept := []appsv1.DeploymentCondition{condition}
	for _, other := range s.deployment.Status.Conditions {
		if other.Type != condition.Type {
			kept = append(kept, other)
		}
	}
	s.deployment.Status.Conditions = kept
}

func desired(count int32) func(*scope) {
	return func(s *scope) {
		s.fn.Spec.Replicas, s.deployment.Spec.Replicas = new(count), new(count)
		s.deployment.Status.Replicas, s.deployment.Status.UpdatedReplicas = count, count
	}
}

// was gives the Function a Running condition from earlier.
func was(status metav1.ConditionStatus, reason string) func(*scope) {
	return func(s *scope) {
		s.fn.Status.Conditions = []metav1.Condition{{Type: v1alpha2.ConditionRunning, Status: status, Reason: reason, Message: "before"}}
	}
}

func pods(pods ...corev1.Pod) func(*scope) {
	return func(s *scope) { s.pods = pods }
}

// pod is one of the present template that is not ready.
func pod(age time.Duration, changes ...func(*corev1.Pod)) corev1.Pod {
	built := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		CreationTimestamp: metav1.NewTime(noon().Add(-age)),
		Annotations:       map[string]string{resources.AnnotationTemplate: template},
	}}
	for _, change := range changes {
		change(&built)
	}
	return built
}

func waitingFor(reason, message string) func(*corev1.Pod) {
	return container(corev1.ContainerStatus{Name: resources.ContainerName, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}})
}

func ended(code int32, reason, message string) func(*corev1.Pod) {
	return container(corev1.ContainerStatus{
		Name:         resources.ContainerName,
		RestartCount: 3,
		State:        corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message},
		},
	})
}

func container(status corev1.ContainerStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status) }
}

// older is a ready pod of an earlier template.
func older(version string, changes ...func(*corev1.Pod)) corev1.Pod {
	built := pod(time.Hour, readyPod)
	built.Annotations = map[string]string{resources.AnnotationTemplate: "older", resources.AnnotationVersion: version}
	for _, change := range changes {
		change(&built)
	}
	return built
}

func initContainer(code int32, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: "prepare", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}},
		})
	}
}

func override(s *scope) { s.fn.Spec.RuntimeImageOverride = "own:1" }

func running(pod *corev1.Pod) {
	container(corev1.ContainerStatus{
		Name: resources.ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	})(pod)
}

func readyPod(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func TestRunning(t *testing.T) {
	t.Parallel()
	broken := ended(1, "Error", "handler did not load: boom\n")
	tests := map[string]struct {
		scope            *scope
		wantStatus       metav1.ConditionStatus
		wantReason       string
		wantMessage      string
		wantRequeueAfter time.Duration
	}{
		"a Deployment that was just created is not known yet": {
			scope:      newScope(func(s *scope) { s.change = created }),
			wantStatus: "Unknown", wantReason: "DeploymentCreated", wantMessage: "Deployment price created",
		},
		"a Deployment that was just updated is not known yet": {
			scope:      newScope(was("True", "DeploymentReady"), func(s *scope) { s.change = updated }),
			wantStatus: "Unknown", wantReason: "DeploymentUpdated", wantMessage: "Deployment price updated",
		},
		"a Deployment with all replicas is ready": {
			scope:      newScope(),
			wantStatus: "True", wantReason: "DeploymentReady", wantMessage: "Deployment price is ready",
		},
		"a Deployment that sleeps is ready": {
			scope:      newScope(desired(0)),
			wantStatus: "True", wantReason: "DeploymentReady", wantMessage: "Deployment price is ready and sleeps at zero replicas",
		},
		"a Deployment that its controller has not observed keeps its condition": {
			scope:      newScope(was("True", "DeploymentReady"), func(s *scope) { s.deployment.Generation++ }),
			wantStatus: "True", wantReason: "DeploymentReady", wantMessage: "before",
		},
		"a Deployment that was read before it was changed keeps its condition": {
			scope: newScope(was("Unknown", "DeploymentUpdated"), func(s *scope) {
				s.deployment.Spec.Template.Annotations[resources.AnnotationTemplate] = "older"
			}),
			wantStatus: "Unknown", wantReason: "DeploymentUpdated", wantMessage: "before",
		},
		"a Deployment that was read before it was scaled keeps its condition": {
			scope:      newScope(was("Unknown", "DeploymentUpdated"), func(s *scope) { s.fn.Spec.Replicas = ptr.To[int32](3) }),
			wantStatus: "Unknown", wantReason: "DeploymentUpdated", wantMessage: "before",
		},
		"such a Deployment without a condition waits": {
			scope:      newScope(func(s *scope) { s.deployment.Generation++ }),
			wantStatus: "Unknown", wantReason: "DeploymentWaiting", wantMessage: "Deployment price is not ready yet",
		},
		"a Function that wakes keeps running": {
			scope:      newScope(was("True", "DeploymentReady"), available(false), pods(pod(time.Second))),
			wantStatus: "True", wantReason: "DeploymentReady", wantMessage: "before", wantRequeueAfter: 29 * time.Second,
		},
		"a Function that wakes keeps running before it has a pod": {
			scope:      newScope(was("True", "DeploymentReady"), unavailableFor(time.Second)),
			wantStatus: "True", wantReason: "DeploymentReady", wantMessage: "before", wantRequeueAfter: 29 * time.Second,
		},
		"a Function that gets no pod in time does not": {
			scope:      newScope(was("True", "DeploymentReady"), unavailableFor(30*time.Second)),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: "Minimum replicas not available for deployment price",
		},
		"a Function that does not wake in time does not": {
			scope:      newScope(was("True", "DeploymentReady"), available(false), pods(pod(30*time.Second))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: "Minimum replicas not available for deployment price",
		},
		"a new Function does not run before its first pod does": {
			scope: newScope(was("Unknown", "DeploymentCreated"), available(false), progressing("True", "ReplicaSetUpdated"),
				pods(pod(time.Second))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: "Minimum replicas not available for deployment price",
		},
		"a rollout that has enough replicas waits": {
			scope:      newScope(progressing("True", "ReplicaSetUpdated")),
			wantStatus: "Unknown", wantReason: "DeploymentWaiting", wantMessage: "Deployment price is not ready yet",
		},
		"a rollout that makes no progress has failed": {
			scope:      newScope(available(false), progressing("False", "ProgressDeadlineExceeded")),
			wantStatus: "False", wantReason: "DeploymentFailed", wantMessage: "reason: ProgressDeadlineExceeded",
		},
		"pods that cannot be created are a failure": {
			scope: newScope(available(false), func(s *scope) {
				setDeploymentCondition(s, appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate", Message: "quota exceeded",
				})
			}),
			wantStatus: "False", wantReason: "DeploymentFailed", wantMessage: "quota exceeded",
		},
		"a handler that does not load is quoted": {
			scope:      newScope(available(false), pods(pod(time.Minute, broken))),
			wantStatus: "False", wantReason: "HandlerFailed", wantMessage: "handler did not load: boom",
		},
		"a handler that does not load counts although older pods serve": {
			scope:      newScope(progressing("True", "ReplicaSetUpdated"), pods(pod(time.Hour, readyPod), pod(time.Minute, broken))),
			wantStatus: "False", wantReason: "HandlerFailed", wantMessage: "handler did not load: boom",
		},
		"an earlier version serves while the handler does not load": {
			scope: newScope(desired(2), progressing("True", "ReplicaSetUpdated"),
				pods(older("0123456789"), older("0123456789"), pod(time.Minute, broken))),
			wantStatus: "False", wantReason: "HandlerFailed",
			wantMessage: "the new version does not start: handler did not load: boom; version 0123456789 keeps serving with 2 of 2 replicas",
		},
		"an earlier version serves while the image cannot be pulled": {
			scope: newScope(progressing("True", "ReplicaSetUpdated"),
				pods(older("0123456789"), pod(time.Second, waitingFor("ImagePullBackOff", "nope")))),
			wantStatus: "Unknown", wantReason: "DeploymentWaiting",
			wantMessage: "the new version does not start: ImagePullBackOff: nope; " +
				"version 0123456789 keeps serving with 1 of 1 replicas. Deployment price is not ready yet",
		},
		"the newest of the earlier versions is named": {
			scope: newScope(desired(4), available(false), pods(older("0000000001"),
				older("0000000002", func(pod *corev1.Pod) { pod.CreationTimestamp.Time = noon() }),
				older("0000000003"), pod(time.Second, waitingFor("ImagePullBackOff", "nope")))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable", wantMessage: "version 0000000002 keeps serving with 3 of 4 replicas",
		},
		"the same version serves when only its configuration is wrong": {
			scope: newScope(progressing("True", "ReplicaSetUpdated"),
				pods(older(newScope().code.Version()), pod(time.Second, waitingFor("CreateContainerConfigError", "no Secret")))),
			wantStatus: "Unknown", wantReason: "DeploymentWaiting",
			wantMessage: "the changed pods do not start: no Secret; " +
				"those from before the change keep serving with 1 of 1 replicas",
		},
		"an earlier version that is not ready does not serve": {
			scope: newScope(available(false), pods(older("0123456789", func(pod *corev1.Pod) { pod.Status.Conditions = nil }),
				pod(time.Minute, broken))),
			wantStatus: "False", wantReason: "HandlerFailed", wantMessage: "handler did not load: boom",
		},
		"a rollout that has just started is requeued": {
			scope: newScope(progressing("True", "ReplicaSetUpdated"), pods(older("0123456789"), pod(time.Second)), func(s *scope) {
				s.missingSecrets = mounts("a")
			}),
			wantStatus: "Unknown", wantReason: "DeploymentWaiting", wantMessage: "Deployment price is not ready yet",
			wantRequeueAfter: 29 * time.Second,
		},
		"a rollout that waits for a Secret reports it after a while": {
			scope: newScope(progressing("True", "ReplicaSetUpdated"), pods(older("0123456789"), pod(time.Minute)), func(s *scope) {
				s.missingSecrets = mounts("a")
			}),
			wantStatus: "Unknown", wantReason: "DeploymentWaiting",
			wantMessage: `the new version does not start: Secret "a" not found, which spec.secretMounts mounts at /mnt/a; ` +
				"no pod starts before that is there; version 0123456789 keeps serving",
		},
		"a failed rollout names the version that serves": {
			scope:      newScope(progressing("False", "ProgressDeadlineExceeded"), pods(older("0123456789"), pod(time.Hour))),
			wantStatus: "False", wantReason: "DeploymentFailed",
			wantMessage: "the new version does not start: no pod became ready in time; version 0123456789 keeps serving with 1 of 1 replicas",
		},
		"a rollout whose pods are refused says why": {
			scope: newScope(func(s *scope) {
				setDeploymentCondition(s, appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate", Message: "exceeded quota: small",
				})
			}, pods(older("0123456789"))),
			wantStatus: "False", wantReason: "DeploymentFailed",
			wantMessage: "the new version does not start: exceeded quota: small; version 0123456789 keeps serving with 1 of 1 replicas",
		},
		"pods of older code do not count": {
			scope: newScope(pods(pod(time.Minute, broken, func(pod *corev1.Pod) {
				pod.Annotations[resources.AnnotationTemplate] = "older"
			}))),
			wantStatus: "True", wantReason: "DeploymentReady", wantMessage: "Deployment price is ready",
		},
		"a handler that did not load stays broken while it sleeps": {
			scope:      newScope(was("False", "HandlerFailed"), desired(0)),
			wantStatus: "False", wantReason: "HandlerFailed", wantMessage: "before",
		},
		"a handler that did not load stays broken while it is tried again": {
			scope:      newScope(was("False", "HandlerFailed"), available(false), pods(pod(time.Second))),
			wantStatus: "False", wantReason: "HandlerFailed", wantMessage: "before", wantRequeueAfter: 29 * time.Second,
		},
		"a container that ends without a word is described": {
			scope:      newScope(available(false), pods(pod(time.Minute, ended(137, "OOMKilled", "")))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: "container function ended with exit code 137 (OOMKilled), restarted 3 times",
		},
		"an image that cannot be pulled is reported at once": {
			scope: newScope(was("True", "DeploymentReady"), available(false),
				pods(pod(time.Second, waitingFor("ImagePullBackOff", `Back-off pulling image "nope:1"`)))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: `ImagePullBackOff: Back-off pulling image "nope:1". Minimum replicas not available for deployment price`,
		},
		"a Secret that is missing is named": {
			scope: newScope(available(false),
				pods(pod(time.Second, waitingFor("CreateContainerConfigError", `secret "token" not found`)))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: `Secret "token" not found. Minimum replicas not available for deployment price`,
		},
		"mounted Secrets that are missing are named": {
			scope: newScope(available(false), pods(pod(time.Minute, waitingFor("ContainerCreating", ""))), func(s *scope) {
				s.missingSecrets = mounts("a", "b")
			}),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: `Secret "a" not found, which spec.secretMounts mounts at /mnt/a; Secret "b" not found, which spec.secretMounts mounts at /mnt/b; ` +
				"no pod starts before that is there. Minimum replicas not available for deployment price",
		},
		"bound Secrets that are missing are named": {
			scope: newScope(available(false), pods(pod(time.Minute, waitingFor("ContainerCreating", ""))), func(s *scope) {
				s.missingSecrets, s.missingBindings = mounts("a"), []string{"b", "c"}
			}),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: `Secret "a" not found, which spec.secretMounts mounts at /mnt/a; ` +
				`Secret "b" not found, which a ServiceBinding names: its service makes it, or delete the ServiceBinding; Secret "c" not found`,
		},
		"a Function that is asleep names the Secrets that it needs to wake": {
			scope:      newScope(desired(0), func(s *scope) { s.missingSecrets = mounts("a") }),
			wantStatus: "True", wantReason: "DeploymentReady",
			wantMessage: "Deployment price is ready and sleeps at zero replicas; " +
				`Secret "a" not found, which spec.secretMounts mounts at /mnt/a; no pod starts before that is there`,
		},
		"the replicas before a rollout do not count as the present template's": {
			scope:      newScope(func(s *scope) { s.deployment.Status.UpdatedReplicas = 0 }),
			wantStatus: "Unknown", wantReason: "DeploymentWaiting", wantMessage: "Deployment price is not ready yet",
		},
		"an image of the user's that ends is explained": {
			scope:      newScope(override, available(false), pods(pod(time.Minute, ended(1, "Error", "")))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: "container function ended with exit code 1 (Error), restarted 3 times; see its log. " +
				"spec.runtimeImageOverride names own:1, which must contain the server of a runtime of Rouse and its entry point: " +
				"make it FROM runtime-nodejs22:1, or set the annotation rouse.run/runtime-contract to kyma",
		},
		"a user's image that does not respond is explained": {
			scope:      newScope(override, available(false), pods(pod(time.Minute, running))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: "the pod runs and does not answer GET /healthz on port 8080. spec.runtimeImageOverride names own:1",
		},
		"an image of Kyma's contract has other requirements": {
			scope:      newScope(override, available(false), pods(pod(time.Minute, running)), func(s *scope) { s.code.Kyma = true }),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: "which must contain, by Kyma's contract, a server that npm start runs in /usr/src/app and listens on port 8080. " +
				"Or make it FROM runtime-nodejs22:1 and set the annotation rouse.run/runtime-contract to rouse",
		},
		"an image that has just started may still respond": {
			scope:      newScope(override, progressing("True", "ReplicaSetUpdated"), pods(pod(time.Second, running))),
			wantStatus: "Unknown", wantReason: "DeploymentWaiting", wantMessage: "Deployment price is not ready yet", wantRequeueAfter: 29 * time.Second,
		},
		"a handler that does not load runs in our server": {
			scope:      newScope(override, available(false), pods(pod(time.Minute, broken))),
			wantStatus: "False", wantReason: "HandlerFailed", wantMessage: "handler did not load: boom",
		},
		"a failed preparation reports the reason": {
			scope: newScope(available(false), pods(pod(time.Minute, initContainer(0, ""), initContainer(1, `{"message":"no such package"}`),
				waitingFor("PodInitializing", "")))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable",
			wantMessage: "no such package. Minimum replicas not available for deployment price",
		},
		"an unschedulable pod is reported": {
			scope: newScope(available(false), pods(pod(time.Second, func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Message: "0/1 nodes"}}
			}))),
			wantStatus: "Unknown", wantReason: "MinReplicasNotAvailable", wantMessage: "the pod is unschedulable: 0/1 nodes",
		},
		"an object of another owner is a failure, even if it is the ScaledObject": {
			scope: newScope(func(s *scope) {
				s.applied = false
				s.err = kube.Waiting(&failure{condition: "Scaling", reason: "OwnedByOther", message: "Helm"}, time.Second)
			}),
			wantStatus: "False", wantReason: "OwnedByOther", wantMessage: "Helm",
		},
		"a transient error leaves the condition": {
			scope: newScope(was("True", "DeploymentReady"), func(s *scope) {
				s.applied = false
				s.err = errors.New("timeout")
			}),
			wantStatus: "True", wantReason: "DeploymentReady", wantMessage: "before",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requeueAfter := setStatus(tc.scope)
			condition := meta.FindStatusCondition(tc.scope.fn.Status.Conditions, v1alpha2.ConditionRunning)
			require.NotNil(t, condition)
			require.Equal(t, tc.wantStatus, condition.Status)
			require.Equal(t, tc.wantReason, condition.Reason)
			require.Contains(t, condition.Message, tc.wantMessage)
			require.Equal(t, tc.wantRequeueAfter, requeueAfter)
		})
	}
}

func TestScalingCondition(t *testing.T) {
	t.Parallel()
	keda := func(status, message string) func(*scope) {
		return func(s *scope) {
			s.scaledObject = &resources.LiveScaledObject{Status: resources.LiveScaledObjectStatus{Conditions: []resources.LiveCondition{
				{Type: "Active", Status: "False"}, {Type: "Ready", Status: status, Message: message},
			}}}
		}
	}
	hpa := func(status corev1.ConditionStatus, message string) func(*scope) {
		return func(s *scope) {
			s.hpa = &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{
				Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: status, Message: message}},
			}}
		}
	}
	scales := func(s *scope) { scaled(0, 5)(s.fn) }
	tests := map[string]struct {
		scope                   *scope
		wantStatus              metav1.ConditionStatus
		wantReason, wantMessage string
	}{
		"KEDA is ready": {
			scope:      newScope(scales, keda("True", "")),
			wantStatus: "True", wantReason: "ScaledObjectReady", wantMessage: "ScaledObject price keeps 0 to 5 replicas",
		},
		"KEDA has not responded": {
			scope:      newScope(scales, func(s *scope) { s.scaledObject = &resources.LiveScaledObject{} }),
			wantStatus: "Unknown", wantReason: "ScaledObjectWaiting",
		},
		"KEDA has an error": {
			scope:      newScope(scales, keda("False", "scaler is away")),
			wantStatus: "False", wantReason: "ScaledObjectFailed", wantMessage: "scaler is away",
		},
		"an autoscaler of the user's is in the way": {
			scope:      newScope(scales, keda("True", ""), func(s *scope) { s.conflictingAutoscalers = []string{"mine", "yours"} }),
			wantStatus: "False", wantReason: "ScaledObjectFailed",
			wantMessage: "HorizontalPodAutoscaler mine, yours scales the Function too, and Kubernetes lets none of several autoscalers act",
		},
		"an autoscaler of the user's stands in": {
			scope:      newScope(scales, func(s *scope) { s.keda, s.conflictingAutoscalers = false, []string{"mine"} }),
			wantStatus: "False", wantReason: "KedaNotInstalled",
			wantMessage: "KEDA is not installed, and HorizontalPodAutoscaler mine scales the Function",
		},
		"an HPA without KEDA scales by events": {
			scope:      newScope(scales, func(s *scope) { s.keda, s.settings.Scaling.ExternalMetrics = false, true }, hpa("True", "")),
			wantStatus: "True", wantReason: "AutoscalerReady", wantMessage: "HorizontalPodAutoscaler price keeps 0 to 5 replicas by events",
		},
		"an HPA without KEDA has no triggers": {
			scope: newScope(scales, func(s *scope) {
				s.keda, s.settings.Scaling.ExternalMetrics, s.triggers = false, true, []resources.Trigger{{Type: "cpu"}}
			}),
			wantStatus: "True", wantReason: "AutoscalerReady", wantMessage: "KEDA is not installed, which annotation rouse.run/triggers needs",
		},
		"an HPA without KEDA reads no metric": {
			scope:      newScope(scales, func(s *scope) { s.keda, s.settings.Scaling.ExternalMetrics = false, true }, hpa("False", "no answer")),
			wantStatus: "False", wantReason: "AutoscalerFailed", wantMessage: "HorizontalPodAutoscaler price keeps the replicas while it cannot scale: no answer",
		},
		"KEDA repeats a write that met another one": {
			scope: newScope(scales, keda("False", "failed to ensure HPA: "+conflictText+"; please apply"), func(s *scope) {
				s.fn.Status.Conditions = []metav1.Condition{{Type: "Scaling", Status: "True", Reason: "ScaledObjectReady", Message: "before"}}
			}),
			wantStatus: "True", wantReason: "ScaledObjectReady", wantMessage: "before",
		},
		"KEDA repeats its first write": {
			scope:      newScope(scales, keda("False", "failed to ensure HPA: "+conflictText+"; please apply")),
			wantStatus: "Unknown", wantReason: "ScaledObjectWaiting",
		},
		"KEDA is not there": {
			scope:      newScope(scales, func(s *scope) { s.keda = false }),
			wantStatus: "False", wantReason: "KedaNotInstalled", wantMessage: "keeps 1 to 5 replicas",
		},
		"KEDA refuses the ScaledObject": {
			scope: newScope(scales, func(s *scope) {
				s.err = &failure{condition: "Scaling", reason: "ScaledObjectFailed", message: "denied"}
			}),
			wantStatus: "False", wantReason: "ScaledObjectFailed", wantMessage: "denied",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setStatus(tc.scope)
			condition := meta.FindStatusCondition(tc.scope.fn.Status.Conditions, v1alpha2.ConditionScaling)
			require.NotNil(t, condition)
			require.Equal(t, tc.wantStatus, condition.Status)
			require.Equal(t, tc.wantReason, condition.Reason)
			require.Contains(t, condition.Message, tc.wantMessage)
		})
	}
}

// updatedAfter makes the current generation the second one, which Running does not reflect yet.
func updatedAfter(status metav1.ConditionStatus, reason string) func(*scope) {
	return func(s *scope) {
		was(status, reason)(s)
		s.fn.Status.Conditions[0].ObservedGeneration = 1
		s.fn.Generation = 2
	}
}

// kubectl wait reads the generation of the condition, and waits while that is an older one.
func TestRunningObservesTheGenerationOfTheServingCode(t *testing.T) {
	t.Parallel()
	unbuilt := func(s *scope) { s.code = resources.Code{} }
	for name, tc := range map[string]struct {
		scope          *scope
		wantStatus     metav1.ConditionStatus
		wantGeneration int64
		wantVersion    bool
	}{
		"code that is rolled out":                                  {newScope(updatedAfter("Unknown", "DeploymentUpdated")), "True", 2, true},
		"code that is still built":                                 {newScope(updatedAfter("True", "DeploymentReady"), unbuilt), "True", 1, false},
		"code that is being built while the serving version fails": {newScope(updatedAfter("True", "DeploymentReady"), unbuilt, available(false)), "Unknown", 1, false},
		"a Deployment that was read before it was changed": {newScope(updatedAfter("True", "DeploymentReady"), func(s *scope) {
			s.deployment.Spec.Template.Annotations[resources.AnnotationTemplate] = "older"
		}), "True", 1, false},
		"a Deployment that its controller has not seen": {newScope(updatedAfter("True", "DeploymentReady"), func(s *scope) {
			s.deployment.Generation++
		}), "True", 1, false},
		"a Function without conditions that is being built": {newScope(unbuilt), "Unknown", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setStatus(tc.scope)
			condition := meta.FindStatusCondition(tc.scope.fn.Status.Conditions, v1alpha2.ConditionRunning)
			require.Equal(t, tc.wantStatus, condition.Status)
			require.Equal(t, tc.wantGeneration, condition.ObservedGeneration)
			require.Equal(t, tc.wantVersion, tc.scope.fn.Status.Version != "", "what runs is reported of the present code only")
		})
	}
}

func TestAFailureSaysItsCauseFirstEverywhere(t *testing.T) {
	t.Parallel()
	late := progressing("False", "ProgressDeadlineExceeded")
	for name, tc := range map[string]struct {
		scope *scope
		want  string
	}{
		"a ConfigMap is missing": {
			newScope(available(false), late, pods(pod(time.Hour, waitingFor("CreateContainerConfigError", `configmap "my-config" not found`)))),
			`ConfigMap "my-config" not found. Deployment price failed with condition: ` + "\n",
		},
		"a mounted Secret is missing": {
			newScope(available(false), late, pods(pod(time.Hour)), func(s *scope) { s.missingSecrets = mounts("bank") }),
			`Secret "bank" not found, which spec.secretMounts mounts at /mnt/bank; no pod starts before that is there. Deployment price failed`,
		},
		"a quota": {
			newScope(available(false), late, func(s *scope) {
				setDeploymentCondition(s, appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate", Message: "exceeded quota: small",
				})
			}), "exceeded quota: small. Deployment price failed with condition: \n",
		},
		"nothing but time": {newScope(available(false), late), "ProgressDeadlineExceeded. Deployment price failed with condition: \n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setStatus(tc.scope)
			for _, kind := range []string{v1alpha2.ConditionRunning, kube.ConditionReady, kube.ConditionStalled} {
				condition := meta.FindStatusCondition(tc.scope.fn.Status.Conditions, kind)
				require.NotNil(t, condition, kind)
				require.Equal(t, v1alpha2.ReasonDeploymentFailed, condition.Reason)
				require.Equal(t, tc.want, condition.Message[:min(len(tc.want), len(condition.Message))], kind)
			}
		})
	}
}

func TestTheRestOfTheStatus(t *testing.T) {
	t.Parallel()
	t.Run("a ready Function reports the running version", func(t *testing.T) {
		t.Parallel()
		s := newScope(func(s *scope) {
			s.fn.Spec.Runtime = v1alpha2.RuntimeNodeJS20
			s.code = resources.Code{Image: "own:1", Runtime: "nodejs20"}
			s.fn.Spec.Annotations = map[string]string{"a": "b"}
		})
		setStatus(s)
		require.Equal(t, int32(1), s.fn.Status.Replicas)
		require.Equal(t, "own:1", s.fn.Status.RuntimeImage)
		require.Equal(t, s.code.Version(), s.fn.Status.Version)
		require.Equal(t, v1alpha2.RuntimeNodeJS20, s.fn.Status.Runtime)
		require.Equal(t, s.fn.Spec.Annotations, s.fn.Status.FunctionAnnotations)
		require.Equal(t, "serverless.kyma-project.io/function-name=price,serverless.kyma-project.io/managed-by=function-controller,"+
			"serverless.kyma-project.io/resource=deployment,serverless.kyma-project.io/uuid=uid-of-price", s.fn.Status.PodSelector)
		require.Equal(t, "Warning: function configured, runtime nodejs20 is deprecated and will be removed in the future",
			s.fn.Status.Conditions[0].Message)
		require.Equal(t, int64(1), s.fn.Status.Conditions[0].ObservedGeneration)
	})
	t.Run("one that is not ready reports only its replicas", func(t *testing.T) {
		t.Parallel()
		s := newScope(available(false), desired(4))
		setStatus(s)
		require.Equal(t, int32(4), s.fn.Status.Replicas)
		require.Empty(t, s.fn.Status.RuntimeImage)
	})
	t.Run("an invalid Function changes no other field", func(t *testing.T) {
		t.Parallel()
		s := newScope(was("True", "DeploymentReady"), func(s *scope) {
			s.err = kube.Stalled(&failure{condition: "ConfigurationReady", reason: "InvalidFunctionSpec", message: "no"})
		})
		setStatus(s)
		require.Equal(t, int64(1), s.fn.Status.ObservedGeneration, "it was looked at")
		require.Zero(t, s.fn.Status.Replicas)
		require.Equal(t, "before", s.fn.Status.Conditions[0].Message)
		require.Equal(t, "InvalidFunctionSpec", s.fn.Status.Conditions[1].Reason)
	})
	t.Run("a foreign Deployment is not described", func(t *testing.T) {
		t.Parallel()
		s := newScope(func(s *scope) { s.deployment.OwnerReferences, s.applied = nil, false })
		setStatus(s)
		require.Zero(t, s.fn.Status.Replicas)
	})
}

func TestRepeatedPullErrorsGiveOneMessage(t *testing.T) {
	t.Parallel()
	const cause = `failed to pull and unpack image "nope:1": not found`
	failed := waitingFor(reasonErrImagePull, cause)
	backOff := waitingFor(reasonImagePullBackOff, `Back-off pulling image "nope:1": ErrImagePull: `+cause)
	told := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := pod(0, change)
		return &pod
	}
	require.Equal(t, trouble{detail: "ErrImagePull: " + cause}, troubleOf(told(failed)))
	require.Equal(t, troubleOf(told(failed)), troubleOf(told(backOff)))
	require.False(t, troubleDiffers(told(failed), told(backOff)), "so that no write and no reconciliation results")
	require.Equal(t, buildTrouble([]corev1.Pod{*told(failed)}), buildTrouble([]corev1.Pod{*told(backOff)}))
	require.Equal(t, `ImagePullBackOff: Back-off pulling image "nope:1"`,
		troubleOf(told(waitingFor(reasonImagePullBackOff, `Back-off pulling image "nope:1"`))).detail, "an older Kubernetes does not quote")
}
