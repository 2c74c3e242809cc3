// Command panels evaluates every query of the Grafana dashboards by Prometheus' own engine, over scrapes of a running
// Rouse, and fails where a panel has an error or no series.
//
// A scrape is a file <unix milliseconds>_<instance>.txt in Prometheus' text format. Prometheus is in a module of its own,
// because Rouse does not depend on it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: panels SCRAPES DASHBOARDS, two folders")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "panels:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, scrapes, dashboards string) error {
	folder, err := os.MkdirTemp("", "rouse-panels-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	db, err := tsdb.Open(folder, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return fmt.Errorf("open Prometheus' storage: %w", err)
	}
	defer func() { _ = db.Close() }()
	last, err := load(ctx, db, scrapes)
	if err != nil {
		return err
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	return check(ctx, engine, db, dashboards, last)
}

// load stores the scrapes in order of time, and returns the time of the last one.
func load(ctx context.Context, db *tsdb.DB, folder string) (last time.Time, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		return last, errors.Join(err, fmt.Errorf("there are no scrapes in %s", folder))
	}
	slices.Sort(files) // milliseconds have the same number of digits
	for _, file := range files {
		stamp, instance, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txt"), "_")
		at, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			return last, fmt.Errorf("scrape %s: its name does not begin with a time: %w", file, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return last, err
		}
		appender := db.Appender(ctx)
		if err := store(appender, text, instance, at); err != nil {
			return last, errors.Join(fmt.Errorf("scrape %s: %w", file, err), appender.Rollback())
		}
		if err := appender.Commit(); err != nil {
			return last, fmt.Errorf("scrape %s: %w", file, err)
		}
		last = time.UnixMilli(at)
	}
	return last, nil
}

func store(appender storage.Appender, text []byte, instance string, at int64) error {
	parse, err := textparse.New(text, "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := parse.Next()
		switch {
		case entry == textparse.EntryInvalid && err != nil && err.Error() == "EOF":
			return nil
		case err != nil:
			return err
		case entry != textparse.EntrySeries:
			continue
		}
		var series labels.Labels
		parse.Labels(&series)
		_, _, value := parse.Series()
		series = labels.NewBuilder(series).Set(model.InstanceLabel, instance).Set(model.JobLabel, "rouse").Labels()
		if _, err := appender.Append(0, series, at, value); err != nil {
			return fmt.Errorf("store %s: %w", series, err)
		}
	}
}

// dashboard is the part of a Grafana dashboard that is checked.
type dashboard struct {
	Title  string
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// placeholders are the variables of the dashboards: all values, and the range that Grafana takes for scrapes each 15 s.
var placeholders = strings.NewReplacer("$__rate_interval", "1m", "$namespace", ".*", "$subscription", ".*")

func check(ctx context.Context, engine *promql.Engine, db *tsdb.DB, folder string, at time.Time) error {
	boards, err := read(folder)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "DASHBOARD\tPANEL\tSERIES\tVALUE")
	panels, queries, failed := 0, 0, []error(nil)
	for _, board := range boards {
		for _, panel := range board.Panels {
			panels += min(1, len(panel.Targets)) // a row has none
			for _, target := range panel.Targets {
				queries++
				series, value, err := evaluate(ctx, engine, db, target.Expr, at)
				if err != nil {
					failed = append(failed, fmt.Errorf("%s, panel %q: %s: %w", board.Title, panel.Title, target.Expr, err))
				}
				_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", board.Title, panel.Title, series, value)
			}
		}
	}
	_ = table.Flush()
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	fmt.Printf("dashboards ok: dashboards=%d panels=%d queries=%d\n", len(boards), panels, queries)
	return nil
}

func read(folder string) (boards []dashboard, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("there are no dashboards in %s", folder))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var board dashboard
		if err := json.Unmarshal(text, &board); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		boards = append(boards, board)
	}
	return boards, nil
}

// mayBeEmpty reports whether nothing is a good answer: where a query selects by a value, where a series begins with the first
// failure, and where there is no certificate.
func mayBeEmpty(query string) bool {
	return slices.ContainsFunc([]string{"== 0", "rouse_eventbridge_receive_errors_total", "rouse_gateway_tls_certificate_expiry_timestamp_seconds"},
		func(part string) bool { return strings.Contains(query, part) })
}

// evaluate returns the number of series and the largest value, "-" where all are undefined, as rates of nothing are.
func evaluate(ctx context.Context, engine *promql.Engine, db *tsdb.DB, text string, at time.Time) (series int, value string, err error) {
	query, err := engine.NewInstantQuery(ctx, db, nil, placeholders.Replace(text), at)
	if err != nil {
		return 0, "", err
	}
	defer query.Close()
	result := query.Exec(ctx)
	vector, err := result.Vector()
	if err != nil {
		return 0, "", err
	}
	if len(vector) == 0 && !mayBeEmpty(text) {
		return 0, "", errors.New("no series")
	}
	largest := math.NaN()
	for _, sample := range vector {
		if math.IsNaN(largest) || sample.F > largest {
			largest = sample.F
		}
	}
	if math.IsNaN(largest) {
		return len(vector), "-", nil
	}
	return len(vector), strconv.FormatFloat(largest, 'g', 4, 64), nil
}
