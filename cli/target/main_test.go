package target

import (
	"os"
	"testing"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// controlPlane starts for the first test that needs it.
var controlPlane = envtest.New()

func TestMain(m *testing.M) { os.Exit(controlPlane.Main(m)) }
