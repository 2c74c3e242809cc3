package target

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/cli/exit"
)

const (
	// listPage is how many objects the API server has to hold for an answer.
	listPage = 250
	// listBuffer is the memory for what was received and not decoded yet.
	listBuffer = 64 << 10
)

// each calls do with each object of a resource, of which it decodes the fields that T has. It holds one object at a time: a Function has a
// source of up to a MiB. It fails when there are more than the options allow. Its errors are the API server's.
func each[T any](ctx context.Context, c *cluster, resource schema.GroupVersionResource, namespace, labels string, do func(*T) error) error {
	read, next := 0, ""
	count := func(item *T) error {
		if read++; c.options.MaxObjects > 0 && read > c.options.MaxObjects {
			return exit.Errorf(exit.Refused, "there are more than %d %s: choose a namespace with fewer", c.options.MaxObjects, resource.Resource)
		}
		return do(item)
	}
	for {
		request := c.rest.Get().AbsPath("/apis", resource.Group, resource.Version).NamespaceIfScoped(namespace, namespace != "").
			Resource(resource.Resource).SetHeader("Accept", "application/json").Param("limit", strconv.Itoa(listPage))
		if labels != "" {
			request.Param("labelSelector", labels)
		}
		if next != "" {
			request.Param("continue", next)
		}
		body, err := request.Stream(ctx)
		if err != nil {
			return err
		}
		next, err = decodeList(body, count)
		_ = body.Close() // all that matters was read
		if err != nil || next == "" {
			return err
		}
	}
}

// decodeList calls do with each item of a list, and returns where the next page begins, empty for the last one.
func decodeList[T any](body io.Reader, do func(*T) error) (next string, err error) {
	decoder := json.NewDecoder(bufio.NewReaderSize(body, listBuffer))
	if _, err := decoder.Token(); err != nil {
		return "", unreadable(err)
	}
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return "", unreadable(err)
		}
		switch field {
		case "items":
			err = decodeItems(decoder, do)
		case "metadata":
			var list metav1.ListMeta
			err = unreadable(decoder.Decode(&list))
			next = list.Continue
		default:
			var other json.RawMessage
			err = unreadable(decoder.Decode(&other))
		}
		if err != nil {
			return "", err
		}
	}
	_, err = decoder.Token()
	return next, unreadable(err)
}

func decodeItems[T any](decoder *json.Decoder, do func(*T) error) error {
	if start, err := decoder.Token(); err != nil || start == nil { // null is a list without items
		return unreadable(err)
	}
	for decoder.More() {
		var item T
		if err := decoder.Decode(&item); err != nil {
			return unreadable(err)
		}
		if err := do(&item); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return unreadable(err)
}

func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read what the API server sent: %w", err)
}
