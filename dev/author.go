package dev

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
)

// Written implements dashboard.Author, with the object as its file has it.
func (h *home) Written(_ context.Context, _ dashboard.User, ref dashboard.Ref) (*unstructured.Unstructured, error) {
	return h.folder.reader.Find(h.folder.directory, ref.Kind, ref.Namespace, ref.Name)
}

// Write implements dashboard.Author: it writes files of the folder, which is watched.
func (h *home) Write(
	_ context.Context, _ dashboard.User, edits []dashboard.Edit, options dashboard.WriteOptions,
) (dashboard.Written, error) {
	h.writing.Lock()
	defer h.writing.Unlock()
	changes := make([]manifest.Change, 0, len(edits))
	for _, edit := range edits {
		changes = append(changes, manifest.Change{Kind: edit.Kind, Namespace: edit.Namespace, Name: edit.Name, Fields: edit.Fields})
	}
	var result dashboard.Written
	written, err := h.folder.reader.Change(h.folder.directory, changes, options.Create)
	if err != nil {
		return result, dashboard.Error{Status: http.StatusUnprocessableEntity, Text: err.Error()}
	}
	for _, problem := range written.Problems {
		if !problem.Warning {
			result.Refusals = append(result.Refusals, refusalOf(edits, problem))
		}
	}
	if len(result.Refusals) > 0 {
		return result, nil
	}
	for _, each := range written.Objects {
		ref := dashboard.Ref{Kind: each.Kind, NamespacedName: types.NamespacedName{Namespace: each.Namespace, Name: each.Name}}
		result.Texts = append(result.Texts, dashboard.Text{Ref: ref, File: each.File, Before: each.Before, After: each.After})
	}
	if options.Dry {
		return result, nil
	}
	return result, written.Save()
}

func refusalOf(edits []dashboard.Edit, problem manifest.Problem) dashboard.Refusal {
	refusal := dashboard.Refusal{Path: problem.Field, Message: problem.Message, Remedy: problem.Remedy}
	for _, edit := range edits {
		if problem.Object == edit.Kind+" "+edit.String() {
			refusal.Ref = edit.Ref
		}
	}
	return refusal
}

// RollBack implements dashboard.Manager.
func (h *home) RollBack(context.Context, dashboard.User, types.NamespacedName, string) (string, error) {
	return "", dashboard.Error{
		Status: http.StatusConflict, Text: "local mode keeps no versions: the folder has the only one; take an earlier one out of Git",
	}
}

// Pause implements dashboard.Manager, in the file of the Subscription.
func (h *home) Pause(ctx context.Context, user dashboard.User, subscription types.NamespacedName, pause bool) (bool, error) {
	ref := dashboard.Ref{Kind: dashboard.KindSubscription, NamespacedName: subscription}
	before, err := h.Written(ctx, user, ref)
	if err != nil {
		return false, err
	}
	if before == nil {
		return false, dashboard.ErrNotFound
	}
	if was, _, _ := unstructured.NestedBool(before.Object, "spec", "paused"); was == pause {
		return false, nil
	}
	result, err := h.Write(ctx, user, []dashboard.Edit{{Ref: ref, Fields: dashboard.PauseFields(pause)}}, dashboard.WriteOptions{})
	if err == nil && len(result.Refusals) > 0 {
		err = errors.New(result.Refusals[0].Message)
	}
	return err == nil, err
}

// FollowBuild implements dashboard.Lines, with what prepares a Function: messages of local mode.
func (f lineFeed) FollowBuild(ctx context.Context, _ dashboard.User, function types.NamespacedName, tail int, handle func(dashboard.Line)) {
	f.feed.Follow(ctx, function, tail, func(l process.Line) {
		if l.Stream == process.Rouse {
			handle(dashboard.Line{Time: l.Time, Replica: l.Replica, Stream: l.Stream, Text: l.Text})
		}
	})
}

// podsOf returns the processes of a Function.
func (h *home) podsOf(name types.NamespacedName) []dashboard.Pod {
	var pods []dashboard.Pod
	for _, replica := range h.functions.Replicas(name) {
		state := "starting"
		switch {
		case replica.Ending:
			state = "ending"
		case replica.Ready && replica.Older:
			state = "running, an older version"
		case replica.Ready:
			state = "running"
		}
		pods = append(pods, dashboard.Pod{Name: replica.Name, Ready: replica.Ready, State: state, Problem: replica.Problem, Since: replica.Started})
	}
	return pods
}
