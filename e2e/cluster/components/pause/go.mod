module github.com/rouse-run/rouse/e2e/cluster/components/pause

go 1.26.0
