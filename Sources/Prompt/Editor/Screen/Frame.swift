/// The rows that the editor shows on the screen. The first one is where the prompt starts.
struct Frame: Equatable {
    var rows: [[Cell]] = [[]]
    /// The cursor: an index into `rows`, and a column below the width of the screen.
    var cursorRow = 0
    var cursorColumn = 0
}
