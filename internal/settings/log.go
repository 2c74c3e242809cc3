package settings

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// maxComponents and the pattern bound what a log has to compare with at each line.
const maxComponents = 100

var componentName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}(/[A-Za-z0-9.-]{1,63}){0,3}$`)

// ParseLog reads a log-config.yaml. The error names everything that is wrong.
func ParseLog(text string) (Log, error) {
	file := LogFile{}
	if err := decode(text, &file); err != nil {
		return Log{}, fmt.Errorf("%s: %w", LogKey, err)
	}
	p := &parser{}
	read := Log{
		Level: p.level("logLevel", file.LogLevel), Format: p.format(file.LogFormat), DebugLinesPerSecond: file.DebugLinesPerSecond,
	}
	if len(file.Components) > maxComponents {
		p.refuse("components", "%d are more than %d: name groups, such as eventbridge", len(file.Components), maxComponents)
	} else {
		read.Components = p.components(file.Components)
	}
	if most := file.DebugLinesPerSecond; most != nil && (*most < 0 || *most > 1000) {
		p.refuse("debugLinesPerSecond", "%d must be from 0 to 1000", *most)
	}
	if err := p.err(LogKey); err != nil {
		return Log{}, err
	}
	return read, nil
}

func (p *parser) components(of map[string]string) map[string]string {
	if len(of) == 0 {
		return nil
	}
	read := make(map[string]string, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		field := "components." + shortened(name)
		process, _, _ := strings.Cut(name, "/")
		if !componentName.MatchString(name) || !slices.Contains(processes, process) {
			p.refuse(field, "must begin with one of %s, as in eventbridge/delivery", strings.Join(processes, ", "))
			continue
		}
		if of[name] == "" {
			p.refuse(field, "needs a level: %s", strings.Join(levels, ", "))
			continue
		}
		read[name] = p.level(field, of[name])
	}
	return read
}

// level takes Kyma's names too: all that is graver than an error.
func (p *parser) level(field, text string) string {
	switch text {
	case "", "debug", "info", "warn", "error":
		return text
	case "fatal", "panic", "dpanic":
		return "error"
	default:
		p.refuse(field, "%q must be one of %s or fatal", shortened(text), strings.Join(levels, ", "))
		return ""
	}
}

func (p *parser) format(text string) string {
	switch text {
	case "", FormatJSON, FormatConsole:
		return text
	case "text":
		return FormatConsole
	default:
		p.refuse("logFormat", "%q must be json or console", shortened(text))
		return ""
	}
}
