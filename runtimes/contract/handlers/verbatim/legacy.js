const text = 'a $$ b $(FUNC_NAME) c \\n d \u00e9 ü 漢 🦉 `';
module.exports = { main: () => text.replace(/^a /, '$$') };
