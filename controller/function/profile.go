package function

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// smallCluster is the greatest number of nodes of a cluster whose Functions
	// get the small profile unless they say otherwise.
	smallCluster = 2
	smallProfile = "XS"
	largeProfile = "L"
)

// chooseProfile fills in the default profile where the installation leaves it
// to the controller. Without the right to list nodes it is the large one.
func chooseProfile(ctx context.Context, mgr ctrl.Manager, options *Options) error {
	if options.DefaultProfile != "" {
		return nil
	}
	profile, err := profileFor(ctx, mgr.GetAPIReader())
	if apierrors.IsForbidden(err) {
		mgr.GetLogger().Error(err, "default profile chosen without knowing the nodes", "profile", largeProfile)
		options.DefaultProfile = largeProfile
		return nil
	}
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("default profile chosen by the number of nodes", "profile", profile)
	options.DefaultProfile = profile
	return nil
}

// profileFor chooses the default profile by the size of the cluster. It is asked
// once, at the start: a node that comes or goes must not replace all pods.
func profileFor(ctx context.Context, reader client.Reader) (string, error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := reader.List(ctx, nodes, client.Limit(smallCluster+1)); err != nil {
		return "", fmt.Errorf("count the nodes, for the default profile: %w", err)
	}
	if len(nodes.Items) <= smallCluster {
		return smallProfile, nil
	}
	return largeProfile, nil
}
