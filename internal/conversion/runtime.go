package conversion

import "github.com/rouse-run/rouse/api/serverless/v1alpha2"

// formerDefault is the runtime of a Function of v1alpha1 that named none.
const formerDefault = "nodejs14"

// successors are the replacements of removed runtimes.
var successors = map[string]v1alpha2.Runtime{
	"nodejs6": v1alpha2.RuntimeNodeJS22, "nodejs8": v1alpha2.RuntimeNodeJS22, "nodejs10": v1alpha2.RuntimeNodeJS22,
	"nodejs12": v1alpha2.RuntimeNodeJS22, "nodejs14": v1alpha2.RuntimeNodeJS22, "nodejs16": v1alpha2.RuntimeNodeJS22,
	"nodejs18": v1alpha2.RuntimeNodeJS22,
	"python37": v1alpha2.RuntimePython312, "python38": v1alpha2.RuntimePython312, "python39": v1alpha2.RuntimePython312,
}

func runtimeUp(old string) v1alpha2.Runtime {
	if old == "" {
		old = formerDefault
	}
	if made, gone := successors[old]; gone {
		return made
	}
	return v1alpha2.Runtime(old)
}

func runtimeDown(made v1alpha2.Runtime) string { return string(made) }
