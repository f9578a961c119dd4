package mcp

// Budgets of an answer, in tokens.
const (
	usualTokens = 2000
	mostTokens  = 8000
	leastTokens = 200
	briefTokens = 600 // of diagnose
)

// tokens estimates a text's number of tokens, rather high: four letters, three digits, or one other
// character are one. A test compares it with the tokenizers o200k_base and cl100k_base; embedding
// one would add 4 MB.
func tokens(s string) (n int) {
	letters, digits := 0, 0
	end := func() {
		n += (letters+3)/4 + (digits+2)/3
		letters, digits = 0, 0
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			if digits > 0 || c <= 'Z' && letters > 0 && s[i-1] > 'Z' {
				end()
			}
			letters++
		case c >= '0' && c <= '9':
			if letters > 0 {
				end()
			}
			digits++
		case c == ' ':
			end()
		default:
			end()
			n++
		}
	}
	end()
	return n
}
