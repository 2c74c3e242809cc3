package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

const (
	// answerLimit is for the database's index, which is some bytes.
	answerLimit = 30 * time.Second
	indexLimit  = 1 << 20
	// oldest is how long a database of all Go modules does not stay without a change: entries come several times a week.
	oldest = 30 * 24 * time.Hour
)

// lastModified is when the database changed last.
func lastModified(ctx context.Context, database string) (time.Time, error) {
	location, err := url.Parse(database)
	if err != nil {
		return time.Time{}, err
	}
	var text []byte
	if location.Scheme == "file" {
		text, err = os.ReadFile(filepath.Join(filepath.FromSlash(location.Path), "index", "db.json"))
	} else {
		text, err = fetch(ctx, database+"/index/db.json.gz")
	}
	if err != nil {
		return time.Time{}, err
	}
	var index struct {
		Modified time.Time `json:"modified"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return time.Time{}, err
	}
	if index.Modified.IsZero() {
		return time.Time{}, errors.New("its index has no time")
	}
	return index.Modified, nil
}

func fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	content, err := gzip.NewReader(response.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(content, indexLimit))
}

// stale says why an answer of such a database would be worth nothing. It is empty if it is worth something.
func stale(modified, now time.Time) string {
	if age := now.Sub(modified); age > oldest {
		return fmt.Sprintf("is of %s, %d days old", modified.Format(time.DateOnly), int(age.Hours()/24))
	}
	return ""
}
