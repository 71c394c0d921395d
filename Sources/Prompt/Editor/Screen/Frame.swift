/// The rows that the editor shows on the screen. The prompt starts in the first row.
struct Frame: Equatable {
    var rows: [[Cell]] = [[]]
    /// The cursor: an index into `rows`, and a column below the width of the screen.
    var cursorRow = 0
    var cursorColumn = 0
}
