package scaffold

import (
	"fmt"
	"path/filepath"
	"strings"
)

// report prints what was written and what comes next. collection is a kustomization.yaml beside the folder, or empty.
func report(p page, folder string, files []File, collection string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", folder)
	for _, file := range files {
		fmt.Fprintf(&out, "  %-20s  %s\n", file.Name, purpose(file.Name, p))
	}
	fmt.Fprint(&out, "\nNext:\n")
	step := func(format string, args ...any) { fmt.Fprintf(&out, "  "+format+"\n", args...) }
	word := shellText(folder)
	step("(cd %s && %s)", word, p.TestCommand)
	if collection != "" {
		step("add %q to the resources of %s", "- "+p.Name, collection)
		word = shellText(filepath.Dir(folder))
	}
	step("rouse dev %s", word)
	if p.Event {
		step("rouse publish --type %s --source %s --data '{\"id\": \"1\"}'", shellText(p.Type), shellText(p.Source))
	} else {
		step("rouse invoke %s --namespace %s --data '{\"name\": \"Ada\"}'", p.Name, p.Namespace)
	}
	step("kubectl apply -k %s", word)
	if p.Host != "" {
		step("kubectl get apirule %s --namespace %s # until its state is Ready", p.Name, p.Namespace)
	}
	return out.String()
}

// purpose is a file in a few words.
func purpose(name string, p page) string {
	switch name {
	case p.HandlerFile:
		return "the handler"
	case p.TestFile:
		return "its test: " + p.TestCommand
	case functionFile:
		return "the Function"
	case subscriptionFile:
		return "which events it gets"
	case apiRuleFile:
		return "the host at which it is exposed"
	case kustomizationFile:
		return "puts the handler into the Function"
	case p.DependenciesFile:
		return "the packages that it needs"
	case "README.md":
		return "how to go on"
	default:
		return "for the debugger of VS Code"
	}
}
