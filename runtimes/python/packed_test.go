package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPackedHandlerFindsItsFilesAndIsNamedInTracebacks(t *testing.T) {
	t.Parallel()
	source := packed("handler.py", map[string]string{
		"handler.py":       "import shop.rates\nTITLE = '\u2028 <é\U0001F600 \"quoted\" \\\\n'\n\ndef main(event, context):\n    return shop.rates.of(event)\n",
		"shop/rates.py":    "def of(name):\n    with open('prices/' + name, 'rb') as file:\n        return file.read()\n",
		"shop/__init__.py": "",
	}, map[string][]byte{"prices/tea": {0, 0xff, 7}})
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "handler.py"), []byte(source), 0o600))
	script := "import handler\nassert handler.main('tea', None) == bytes([0, 255, 7])\n" +
		"assert handler.TITLE == '\\u2028 <\\u00e9\\U0001F600 \"quoted\" \\\\n', handler.TITLE\n" +
		"try:\n    handler.main('gone', None)\nexcept OSError as error:\n    import traceback\n    text = ''.join(traceback.format_exception(error))\n" +
		"assert 'handler.py\", line 5, in main' in text and 'shop/rates.py\", line 2, in of' in text, text\n"
	command := exec.CommandContext(t.Context(), "python3", "-c", script)
	command.Dir = dir
	command.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
}
